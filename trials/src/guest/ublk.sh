#!/bin/busybox sh
# The first program of a guest in which `thermocline serve` makes a block device of the guest's own kernel.
# Each line of /plan is a case. A line that begins with @ is for the host.
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /mnt
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
for place in /dev/shm /tmp /run; do mount -t tmpfs tmp $place; done
device=/dev/ublkb0

# Some callers collect what is printed, so this goes past them.
fail() {
  {
    [ -f log ] && tail -n 12 log
    echo "@fail $name: $*"
  } > /dev/console
  poweroff -f
}

while read -r module; do
  insmod "/modules/$module.ko" || fail "the module $module cannot be loaded"
done < /modules/order
echo "@kernel $(uname -r)"
echo "@fio $(fio --version)"

# Waits until a command succeeds.
await() {
  for _ in $(seq 1200); do
    "$@" && return
    sleep 0.1
  done
  fail "this did not come true: $*"
}

serve() {
  thermocline serve cache.toml >> log 2>&1 &
  server=$!
}

is_block() { [ -b $device ]; }
is_gone() { [ ! -e $device ]; }
is_served() { grep -q 'a block device is served' log; }

kill_server() {
  kill -9 "$server"
  wait "$server"
}

stop_server() {
  kill -TERM "$server"
  wait "$server" || fail "the server ended with $?"
}

# Stops a server that deletes its device.
end() {
  stop_server
  is_gone || fail "the server left the device behind"
}

# Runs fio with checksums. An error, or other bytes than were written, ends it with an error.
verified() {
  fio --name=load --rw=randwrite --bsrange=4k-64k --verify=crc32c --do_verify=1 --verify_fatal=1 --thread \
    --eta=never "$@"
}

# Begins to write to the device. Each write is durable before it is answered, so no kill may lose one.
begin_load() {
  verified --filename=$device --size=4M --loops=4 --ioengine=libaio --iodepth=16 --direct=1 --sync=1 \
    --output=/tmp/load &
  load=$!
}

writes() { awk '{ print $5 }' /sys/block/ublkb0/stat; }

has_written() { [ "$(writes)" -ge "$wanted" ] || ! kill -0 $load; }

# Waits until the load has written more, and has more to write.
await_load() {
  wanted=$(($(writes) + 60))
  await has_written
  kill -0 $load || fail "the load ended early: $(cat /tmp/load)"
}

end_load() {
  wait $load || fail "fio failed: $(cat /tmp/load)"
  dmesg | grep -i 'I/O error' && fail "the kernel had errors"
}

# A file system that is complete: while the kernel clears the tables of a new one, it issues flushes of its own, and
# ignores their errors.
make_ext4() {
  mkfs.ext4 -q -E discard,lazy_itable_init=0,lazy_journal_init=0 $device || fail "mkfs.ext4"
}

# A file system, and kills under load.
verify() {
  make_ext4
  mount -t ext4 $device /mnt || fail "the device cannot be mounted"
  verified --directory=/mnt --size=2M --ioengine=psync --fsync=16 --output=/tmp/files ||
    fail "fio failed: $(cat /tmp/files)"
  umount /mnt || fail "the device cannot be unmounted"
  begin_load
  for _ in 1 2; do
    await_load
    kill_server
    kill -0 $load || fail "the load ended although its requests wait"
    echo "@kill $name"
    serve
  done
  end_load
  end
}

# A device that outlives an orderly stop under load, and then a server that deletes it.
keep() {
  begin_load
  await_load
  stop_server
  is_block || fail "the device went with the server"
  kill -0 $load || fail "the load ended although its requests wait"
  echo "@stop $name"
  serve
  end_load
  stop_server
  is_block || fail "the device went with the server"
  sed -i 's/keep_at_exit = true/keep_at_exit = false/' cache.toml
  : > log
  serve
  await is_served
  end
}

# Answered writes that no flush covered: after a kill the next flush fails, once.
flush() {
  verified --filename=$device --size=1M --ioengine=psync --direct=1 --output=/tmp/load || fail "$(cat /tmp/load)"
  kill_server
  serve
  sync -d $device && fail "a flush confirmed writes that may be lost"
  sync -d $device || fail "a second flush failed"
  echo "@flush $name device"
  make_ext4
  mount -t ext4 $device /mnt || fail "the device cannot be mounted"
  verified --directory=/mnt --size=1M --ioengine=psync --direct=1 --output=/tmp/load || fail "$(cat /tmp/load)"
  kill_server
  serve
  sync -d /mnt/load.0.0 && fail "ext4 confirmed writes that may be lost"
  umount /mnt || fail "the device cannot be unmounted"
  mount -t ext4 $device /mnt || fail "the device cannot be mounted again"
  echo again > /mnt/again
  sync -d /mnt/again || fail "a flush after the new mount failed"
  umount /mnt
  echo "@flush $name ext4"
  end
}

# Nanoseconds in which the processor was not idle: instructions, since the guest runs one per nanosecond.
busy() {
  awk '/^now at/ { now = $3 } $1 == ".idle_sleeptime" { idle = $3 } END { printf "%.0f", now - idle }' \
    /proc/timer_list
}

# The same of the server's threads; nothing without a server.
of_server() {
  [ -z "$server" ] && echo 0 && return
  awk '{ all += $1 } END { printf "%.0f", all }' /proc/"$server"/task/*/schedstat
}

# Runs fio on the measured device for a number of requests, and says what that took.
take() {
  before=$(busy) before_server=$(of_server)
  # shellcheck disable=SC2086
  fio --name=count --filename=$device --size=32M --ioengine=libaio --direct=1 --norandommap --thread \
    --eta=never --output=/tmp/count --number_ios="$1" $load || fail "$(cat /tmp/count)"
  after=$(busy) after_server=$(of_server)
  echo "$1 $((after - before)) $((after_server - before_server))"
}

# Two numbers of requests, so that the start of fio is not counted.
count_all() {
  echo none > "/sys/block/${device#/dev/}/queue/scheduler"
  fio --name=fill --filename=$device --size=32M --rw=write --bs=64k --ioengine=psync --direct=1 --thread \
    --eta=never --output=/tmp/fill || fail "$(cat /tmp/fill)"
  while read -r what load; do
    echo "@count $name $what $(take 500) $(take 1500)"
  done < /loads
}

count_ublk() { count_all; end; }

count_nbd() {
  insmod /modules/nbd.ko nbds_max=1 || fail "the module nbd cannot be loaded"
  device=/dev/nbd0
  nbd-client -unix nbd.sock $device > /tmp/client 2>&1 || fail "$(cat /tmp/client)"
  count_all
  nbd-client -d $device > /tmp/client 2>&1
  stop_server
}

# The kernel's own RAM disk: what fio and the block layer take without a server.
count_ram() {
  insmod /modules/brd.ko rd_nr=1 rd_size=65536 || fail "the module brd cannot be loaded"
  device=/dev/ram0 server=
  count_all
}

while read -r name what config; do
  # Errors of an earlier case, which may have been wanted.
  dmesg -c > /dev/null
  mkdir /tmp/case
  cd /tmp/case || fail "there is no folder"
  start=$(cut -d' ' -f1 /proc/uptime)
  if [ -n "$config" ]; then
    cp "/configs/$config" cache.toml
    truncate -s 96M disk.img
    serve
    case $what in
    count_nbd) await [ -S nbd.sock ] ;;
    *) await is_block ;;
    esac
  fi
  "$what"
  echo "@done $name $start $(cut -d' ' -f1 /proc/uptime)"
  cd / && rm -r /tmp/case
done < /plan
echo "@finished"
poweroff -f
