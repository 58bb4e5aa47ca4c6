#!/usr/bin/env bash
# RocksDB's db_bench, filled and then read and updated, as rocksdb.csv.zst.
# Full size: SCALE=10000000 (keys) TRANSACTIONS=2000000.
set -euo pipefail
source "$(dirname "$0")/common.sh"
: "${SCALE:=20000}" "${TRANSACTIONS:=5000}"
need db_bench rocksdb-tools
begin

new_place rocksdb
record rocksdb --include "$INSIDE" -- db_bench --db="$PLACE/db" --benchmarks=fillrandom,readrandomwriterandom \
  --num="$SCALE" --reads="$TRANSACTIONS" --seed=7 --cache_size=1048576 --write_buffer_size=1048576
