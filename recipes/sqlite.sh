#!/usr/bin/env bash
# Transfers between accounts in SQLite with a rollback journal, as sqlite.csv.zst.
# Full size: SCALE=100000 (accounts) TRANSACTIONS=12500.
set -euo pipefail
source "$(dirname "$0")/common.sh"
: "${SCALE:=2000}" "${TRANSACTIONS:=200}"
need sqlite3 sqlite3
begin

new_place sqlite
sqlite3 "$PLACE/bank.db" "create table account (id integer primary key, balance integer, filler text);
  with recursive ids(id) as (select 1 union all select id + 1 from ids where id < $SCALE)
  insert into account select id, 0, hex(randomblob(50)) from ids;"
awk -v accounts="$SCALE" -v transfers="$TRANSACTIONS" 'BEGIN {
  srand(7)
  for (turn = 0; turn < transfers; turn++) {
    print "begin;"
    printf "update account set balance = balance - 1 where id = %d;\n", 1 + int(rand() * accounts)
    printf "update account set balance = balance + 1 where id = %d;\n", 1 + int(rand() * accounts)
    print "commit;"
  }
}' >"$PLACE/transfers.sql"
# The journal is removed and made anew with each transaction; by path it is one file.
record sqlite --identity path --include "${INSIDE}bank*" -- sqlite3 "$PLACE/bank.db" ".read $PLACE/transfers.sql"
