#!/bin/busybox sh
# The first program of the guest: builds each cache of /plan on RAM disks, replays a trace on it, and
# prints what the kernel counted. A line that begins with @ is for the host; others between @case and @end
# are a recorded machine, as thermocline-advise reads it.
/bin/busybox mkdir -p /proc /sys /dev /tmp /run
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
# Nodes of devices are made by dmsetup itself.
export DM_DISABLE_UDEV=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs tmp /dev/shm
mount -t tmpfs tmp /tmp

fail() { echo "@fail $*"; poweroff -f; }

while read -r module; do
  insmod "/modules/$module.ko" || fail "the module $module cannot be loaded"
done < /modules/order
echo "@kernel $(uname -r)"
echo "@fio $(fio --version)"

# The content of files, as a recording has it.
show() {
  for file in "$@"; do
    [ -f "$file" ] && content=$(cat "$file" 2>/dev/null) && echo "== $file" && echo "$content"
  done
}

# Shows a command and what it prints.
run() { echo "$ $*"; "$@"; }

# What passed each of the two devices since it was made.
traffic() {
  for name in slow fast; do
    echo "@traffic $name $(cat "/sys/block/dm-$(dmsetup info -c --noheadings -o minor $name)/stat")"
  done
}

# Says that the cache is there now.
made() { echo "@made $(cut -d' ' -f1 /proc/uptime)"; }

# Replays a trace on a device, at the times that it has.

replay() {
  ln -sf "$1" /dev/cached
  traffic
  echo "@begin $(cut -d' ' -f1 /proc/uptime)"
  fio --name=replay --read_iolog="/traces/$trace" --ioengine=psync --direct=1 --iodepth=1 --thread \
    --clocksource=clock_gettime --eta=never --zero_buffers --output=/tmp/fio ||
    { cat /tmp/fio; fail "fio cannot replay $trace"; }
  echo "@over $(cut -d' ' -f1 /proc/uptime)"
  sed -n 's/.*issued rwts: total=\([0-9]*\),\([0-9]*\),.*/@issued \1 \2/p' /tmp/fio
  traffic
}

# Sectors of the slow and the fast device, of a block; the mode; the migration threshold in sectors.
dm_cache() {
  dd if=/dev/zero of=/dev/ram2 bs=4096 count=1 2>/dev/null
  dmsetup create meta --table "0 65536 linear /dev/ram2 0"
  dmsetup create ssd --table "0 $slow cache /dev/mapper/meta /dev/mapper/fast /dev/mapper/slow $3 1 $4 smq 2 migration_threshold $5" ||
    fail "dm-cache cannot be set up"
  made
  replay /dev/mapper/ssd
  run dmsetup table
  run dmsetup status --noflush
  dmsetup remove ssd; dmsetup remove meta
}

# Sectors of the slow and the fast device; KiB of a bucket; the mode; bytes of the sequential cutoff; the
# percentage of dirty data.
bcache() {
  writeback=; [ "$4" = writeback ] && writeback=--writeback
  make-bcache --bucket "$3k" --block 4k $writeback -C /dev/mapper/fast -B /dev/mapper/slow >/tmp/make ||
    { cat /tmp/make; fail "make-bcache: $?"; }
  echo "/dev/mapper/fast" > /sys/fs/bcache/register
  echo "/dev/mapper/slow" > /sys/fs/bcache/register
  for second in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/bcache0 ] && break; sleep 1; done
  made
  device=/sys/block/bcache0/bcache
  [ -d $device ] || fail "bcache made no device"
  set=$(readlink -f $device/cache)
  echo "$5" > $device/sequential_cutoff
  echo "$6" > $device/writeback_percent
  echo 0 > "$set/congested_read_threshold_us"
  echo 0 > "$set/congested_write_threshold_us"
  echo "@rate $(cat $device/writeback_rate)"
  replay /dev/bcache0
  echo "@dirty $(cat $device/dirty_data)"
  sed 's/^/@priority /' "$set/cache0/priority_stats"
  # The totals take over what was counted every 22 seconds.
  sleep 60
  show $device/* $device/stats_total/*
  show "$set"/* "$set"/cache0/*
  echo "-> $device/cache ../../../fs/bcache/$(basename "$set")"
  echo 1 > "$set/stop"
  for second in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/bcache0 ] || break; sleep 1; done
  sleep 5
}

while read -r kind name trace slow fast settings; do
  insmod /modules/brd.ko rd_nr=3 rd_size=268435456 || fail "there are no RAM disks"
  dmsetup create slow --table "0 $slow linear /dev/ram0 0"
  dmsetup create fast --table "0 $fast linear /dev/ram1 0"
  echo "@case $name"
  # shellcheck disable=SC2086
  $kind "$slow" "$fast" $settings
  echo "@end"
  dmsetup remove slow; dmsetup remove fast
  rmmod brd
done < /plan
echo "@finished"
poweroff -f
