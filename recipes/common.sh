# What the recipes share; it is sourced, not run.
# shellcheck shell=bash

: "${THERMOCLINE:=thermocline}"
: "${TRACES:=traces}"
: "${WORK:=recipe-work}"
: "${RECORDER:=}"

mkdir -p "$TRACES" "$WORK"
TRACES=$(cd "$TRACES" && pwd)
WORK=$(cd "$WORK" && pwd)
PATH="$PATH:$(echo /usr/lib/postgresql/*/bin)"

# Ends with what to install, if a program is missing: need PROGRAM PACKAGE ...
need() {
  while (($#)); do
    command -v "$1" >/dev/null || { echo "$1 is missing: install $2" >&2; exit 3; }
    shift 2
  done
}

# record NAME OPTION... -- COMMAND: the recording is NAME.csv.zst in $TRACES.
record() {
  local name=$1
  shift
  "$THERMOCLINE" trace record ${RECORDER:+--with "$RECORDER"} -o "$TRACES/$name.csv.zst" "$@"
}

# PostgreSQL refuses root, so root lends it to the user of the package.
as_postgres() {
  if ((EUID == 0)); then runuser -u postgres -- "$@"; else "$@"; fi
}

# new_cluster: an empty cluster in $DATA.
new_cluster() {
  need initdb postgresql pgbench postgresql psql postgresql-client
  PLACE=$(mktemp -d "$WORK/postgresql.XXXXXX")
  DATA=$PLACE/data
  ((EUID != 0)) || chown postgres "$PLACE"
  as_postgres initdb -D "$DATA" -U postgres -A trust --no-sync >/dev/null
  # Sockets have short names.
  SOCKETS=$(mktemp -d /tmp/recipe.XXXXXX)
  ((EUID != 0)) || chown postgres "$SOCKETS"
  export PGHOST=$SOCKETS PGUSER=postgres PGDATABASE=postgres
  SERVER=(postgres -D "$DATA" -k "$SOCKETS" -c listen_addresses= -c "shared_buffers=${SHARED_BUFFERS:-16MB}")
  trap 'as_postgres pg_ctl -D "$DATA" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$PLACE" "$SOCKETS"' EXIT
}

wait_for_server() {
  for _ in $(seq 300); do
    pg_isready -q && return
    sleep 0.2
  done
  echo "PostgreSQL does not answer" >&2
  exit 1
}

# prepare COMMAND...: runs it against a server that is not recorded.
prepare() {
  as_postgres pg_ctl -D "$DATA" -w -l "$PLACE/log" -o "${SERVER[*]:3}" start >/dev/null
  "$@"
  as_postgres pg_ctl -D "$DATA" -w -m fast stop >/dev/null
}

# record_server NAME COMMAND...: runs it against a server that is recorded. The server is stopped at
# once, so that the recording ends with the work and not with a checkpoint.
record_server() {
  local name=$1 recorder failed=0 run=()
  shift
  ((EUID != 0)) || run=(runuser -u postgres --)
  record "$name" --page-size 8KiB --include "$DATA/*" -- "${run[@]}" "${SERVER[@]}" >"$WORK/$name.log" 2>&1 &
  recorder=$!
  wait_for_server
  "$@" || failed=$?
  as_postgres pg_ctl -D "$DATA" -m immediate stop >/dev/null
  wait "$recorder" || true
  tail -n 3 "$WORK/$name.log"
  [[ -f $TRACES/$name.csv.zst ]] || { cat "$WORK/$name.log" >&2; exit 1; }
  return "$failed"
}
