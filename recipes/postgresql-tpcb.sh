#!/usr/bin/env bash
# pgbench's TPC-B below PostgreSQL's buffers, as tpcb.csv.zst.
# Full size, as in the HAT reproduction: SCALE=100 TRANSACTIONS=240000 SHARED_BUFFERS=128MB.
set -euo pipefail
source "$(dirname "$0")/common.sh"
: "${SCALE:=2}" "${TRANSACTIONS:=2000}" "${CLIENTS:=4}"

need_postgresql
begin
new_cluster
prepare pgbench -q -i -s "$SCALE"
record_server tpcb pgbench -n -c "$CLIENTS" -t $((TRANSACTIONS / CLIENTS))
