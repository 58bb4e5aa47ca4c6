#!/usr/bin/env bash
# Records the bundled trace: PostgreSQL's pgbench, below the shared buffers, with strace.
#
# Needs PostgreSQL with pgbench, strace, zstd and Python 3.10. PostgreSQL refuses to run as root: run
# this as another user. Usage: record.sh [FOLDER OF THE POSTGRESQL PROGRAMS]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
programs=${1:-$(pg_config --bindir)}
out=${OUT:-$here}
work=$(cd "$(mktemp -d)" && pwd -P) # strace shows paths without symbolic links
trap '"$programs/pg_ctl" -D "$work/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

scale=12             # 1.2 million accounts, about 190 MB of tables and indexes
buffers=2MB          # small, so that the recorder below it sees most re-use
clients=2
seed=20130301
unset PGPORT PGUSER PGOPTIONS
export PGHOST=$work PGDATABASE=postgres

"$programs/initdb" -D "$work/data" -U "$(id -un)" --no-sync >/dev/null
cat >>"$work/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$work'
shared_buffers = $buffers
autovacuum = off
checkpoint_timeout = 1h
max_wal_size = 4GB
CONF
"$programs/pg_ctl" -D "$work/data" -w -l "$work/log" start >/dev/null
"$programs/pgbench" --initialize --quiet --scale=$scale
"$programs/pg_ctl" -D "$work/data" -w stop >/dev/null

calls=read,write,pread64,pwrite64,readv,writev,preadv,pwritev,preadv2,pwritev2
strace -f -ttt -y -s0 --seccomp-bpf -e trace=$calls -e signal=none -o "$work/recording" \
  "$programs/postgres" -D "$work/data" >"$work/log" 2>&1 &
server=$!
until "$programs/pg_isready" -q; do
  kill -0 $server || { cat "$work/log" >&2; exit 1; }
  sleep 0.2
done

begin=$(date +%s.%N)
# Updates and look-ups of accounts drawn with a Zipf-like skew, as customers are. The permutation has
# a seed of its own, so that the same accounts stay hot from part to part.
cat >"$work/update.sql" <<SQL
\set aid random_zipfian(1, 100000 * :scale, 1.05)
\set aid 1 + permute(:aid, 100000 * :scale, 1)
\set bid random(1, :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
SQL
cat >"$work/lookup.sql" <<SQL
\set aid random_zipfian(1, 100000 * :scale, 1.05)
\set aid 1 + permute(:aid, 100000 * :scale, 1)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
SQL
# Each part has a seed of its own; one seed for both would make the second repeat the first.
run() {
  "$programs/pgbench" --no-vacuum --client=$clients --jobs=1 --random-seed="$1" \
    --define=scale=$scale --file="$work/update.sql@1" --file="$work/lookup.sql@2" \
    --transactions="$2" # of each client
}
run $seed 30000
# A report over all accounts in the middle of the day.
"$programs/psql" -q -c 'SELECT bid, count(*), sum(abalance) FROM pgbench_accounts GROUP BY bid' >/dev/null
run $((seed + 1)) 30000
"$programs/psql" -q -c CHECKPOINT
end=$(date +%s.%N)
"$programs/pg_ctl" -D "$work/data" -w stop >/dev/null
wait

python3 "$here/convert.py" "$work/recording" "$begin" "$end" "$work/data" \
  "$work/pgbench.csv" "$out/pgbench.files.csv"
zstd --ultra -22 --force --quiet "$work/pgbench.csv" -o "$out/pgbench.csv.zst"
ls -l "$out/pgbench.csv.zst"
