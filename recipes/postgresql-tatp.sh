#!/usr/bin/env bash
# The TATP telecom benchmark on PostgreSQL, as tatp.csv.zst.
# Full size: SCALE=1000000 (subscribers) TRANSACTIONS=393000 SHARED_BUFFERS=128MB.
set -euo pipefail
source "$(dirname "$0")/common.sh"
: "${SCALE:=10000}" "${TRANSACTIONS:=4000}" "${CLIENTS:=4}"
HERE=$(cd "$(dirname "$0")" && pwd)/tatp

load() { psql -q -v ON_ERROR_STOP=1 -v subscribers="$SCALE" -f "$HERE/schema.sql"; }

need_postgresql
begin
new_cluster
prepare load
# The shares of the transactions are the benchmark's.
record_server tatp pgbench -n -c "$CLIENTS" -t $((TRANSACTIONS / CLIENTS)) -D subscribers="$SCALE" \
  -f "$HERE/get_subscriber_data.sql@35" -f "$HERE/get_new_destination.sql@10" \
  -f "$HERE/get_access_data.sql@35" -f "$HERE/update_subscriber_data.sql@2" \
  -f "$HERE/update_location.sql@14" -f "$HERE/insert_call_forwarding.sql@2" \
  -f "$HERE/delete_call_forwarding.sql@2"
