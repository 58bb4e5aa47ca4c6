#!/bin/busybox sh
# The first program of a guest whose disk is ours. It makes a file system there and copies itself to it;
# the next start boots from that, and writes while the host restarts the server. A line that begins with @
# is for the host.
/bin/busybox mkdir -p /proc /sys /dev /tmp /root
[ -e /bin/sh ] || /bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev

fail() { echo "@fail $*"; poweroff -f; }


case $(cat /proc/cmdline) in
*phase=install*)
  while read -r module; do
    insmod "/modules/$module.ko" || fail "the module $module cannot be loaded"
  done < /modules/order
  [ -b /dev/vda ] || fail "there is no disk"
  echo "@disk $(cat /sys/block/vda/size) $(cat /sys/block/vda/serial) $(cat /sys/block/vda/queue/logical_block_size)"
  mkfs.ext4 -q -E discard /dev/vda || fail "mkfs.ext4"
  mount -t ext4 /dev/vda /root || fail "the disk cannot be mounted"
  for folder in bin lib lib64 usr; do [ -d /$folder ] && cp -a /$folder /root; done
  mkdir -p /root/proc /root/sys /root/dev /root/tmp
  cp /usr/init.run /root/init.run
  umount /root || fail "the disk cannot be unmounted"
  echo "@installed"
  ;;
*phase=boot*)
  while read -r module; do
    insmod "/modules/$module.ko" || fail "the module $module cannot be loaded"
  done < /modules/order
  mount -t ext4 -o discard /dev/vda /root || fail "the disk cannot be mounted"
  mount -t tmpfs tmp /root/tmp
  mount --move /dev /root/dev
  umount /proc /sys
  echo "@booting"
  exec switch_root /root /bin/busybox sh /init.run
  ;;
esac
poweroff -f
