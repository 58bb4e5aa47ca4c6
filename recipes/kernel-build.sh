#!/usr/bin/env bash
# A build of Linux in its tiny configuration, as mlk.csv.zst. The source is the Debian package
# linux-source. Without SCALE=full, only the folder lib/ is built.
set -euo pipefail
source "$(dirname "$0")/common.sh"
: "${SCALE:=lib}" "${JOBS:=2}"
need make build-essential cc build-essential bc bc flex flex bison bison xz xz-utils

ARCHIVE=${LINUX_SOURCE:-$(find /usr/src -maxdepth 1 -name 'linux-source-*.tar.xz' -print -quit)}
[[ -n $ARCHIVE ]] || { echo "the source is missing: install linux-source, or give its archive as LINUX_SOURCE" >&2; exit 3; }
begin
new_place kernel
tar -xf "$ARCHIVE" -C "$PLACE" --strip-components=1
make -s -C "$PLACE" tinyconfig
if [[ $SCALE == full ]]; then
  record mlk -- make -s -C "$PLACE" -j"$JOBS"
else
  make -s -C "$PLACE" -j"$JOBS" prepare
  record mlk -- make -s -C "$PLACE" -j"$JOBS" "$SCALE/"
fi
