#!/bin/busybox sh
# What the guest runs from its own disk: fio with checksums, and the host restarts the server meanwhile.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/shm
mount -t tmpfs tmp /dev/shm
fail() { echo "@fail $*"; poweroff -f; }
echo "@root $(sed -n 's/ \/ / /p' /proc/mounts | tail -n 1 | cut -d' ' -f1,2)"
for round in 1 2 3; do
  # The host looks twice a second, and the load goes on for longer than that.
  echo "@restart $round"
  fio --name=load --directory=/ --size=12M --rw=randwrite --bsrange=4k-64k --verify=crc32c --do_verify=1 \
    --verify_fatal=1 --ioengine=psync --direct=1 --fsync=16 --thread --numjobs=3 --loops=2 --eta=never \
    --output=/tmp/fio || { cat /tmp/fio; fail "fio found other bytes"; }
done
sync
echo "@verified 3 times 36 MiB"
echo "@finished"
mount -o remount,ro /
poweroff -f
