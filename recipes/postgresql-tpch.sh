#!/usr/bin/env bash
# Queries over TPC-H's tables on PostgreSQL, as tpch.csv.zst. The tables are made by tpchgen-cli
# (pip install tpchgen-cli). The queries in tpch/ ask the benchmark's 22 questions in our words, with
# the values by which its answers are validated; other ones can be given as a folder, QUERIES.
# Full size: SCALE=1 SHARED_BUFFERS=128MB.
set -euo pipefail
source "$(dirname "$0")/common.sh"
: "${SCALE:=0.05}"
HERE=$(cd "$(dirname "$0")" && pwd)/tpch
: "${QUERIES:=$HERE/queries}"

need tpchgen-cli "tpchgen-cli from PyPI"
need_postgresql
begin
new_place tpch
TABLES=$PLACE
tpchgen-cli -s "$SCALE" --output-dir "$TABLES"

load() {
  psql -q -v ON_ERROR_STOP=1 -f "$HERE/schema.sql"
  for table in region nation supplier customer part partsupp orders lineitem; do
    # Each line ends with a separator.
    sed 's/|$//' "$TABLES/$table.tbl" |
      psql -q -v ON_ERROR_STOP=1 -c "copy $table from stdin with (format csv, delimiter '|')"
  done
  psql -q -v ON_ERROR_STOP=1 -f "$HERE/keys.sql"
  rm -rf "$TABLES"
}

ask() {
  for query in "$QUERIES"/*.sql; do
    psql -q -v ON_ERROR_STOP=1 -o /dev/null -f "$query"
  done
}

new_cluster
prepare load
record_server tpch ask
