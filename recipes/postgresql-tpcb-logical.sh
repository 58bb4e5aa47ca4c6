#!/usr/bin/env bash
# pgbench's TPC-B above PostgreSQL's buffer pool, as tpcb_logical.csv.zst.
# Full size, as in the HAT reproduction: SCALE=25 TRANSACTIONS=60000.
#
# PostgreSQL runs with the smallest pool that it allows, 16 pages, so that the simulated RAM takes the
# place of the pool. References that hit these 16 pages leave no line: of the hottest pages, such as the
# roots of indexes, most are missing. A RAM of more than 16 pages would hit them too.
set -euo pipefail
source "$(dirname "$0")/common.sh"
: "${SCALE:=2}" "${TRANSACTIONS:=2000}"

need_postgresql
begin
new_cluster
prepare pgbench -q -i -s "$SCALE"
# Nothing but evictions writes pages: neither checkpoints nor the background writer.
SERVER+=(-c shared_buffers=128kB -c bgwriter_lru_maxpages=0 -c checkpoint_timeout=1d -c max_wal_size=1TB)
# A client pins a few pages at a time, so that one client alone is sure to find a free one.
record_server tpcb_logical pgbench -n -c 1 -t "$TRANSACTIONS"
