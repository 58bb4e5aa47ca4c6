# What the recipes share; it is sourced, not run.
# shellcheck shell=bash

: "${THERMOCLINE:=thermocline}"
: "${TRACES:=traces}"
: "${WORK:=recipe-work}"
: "${RECORDER:=}"

PATH="$PATH:$(echo /usr/lib/postgresql/*/bin)"

# Ends with what to install, if a program is missing: need PROGRAM PACKAGE ...
need() {
  while (($#)); do
    command -v "$1" >/dev/null || { echo "$1 is missing: install $2" >&2; exit 3; }
    shift 2
  done
}

# Makes the folders, once nothing is missing.
begin() {
  need "$THERMOCLINE" "Thermocline, or say where it is: THERMOCLINE=FILE"
  mkdir -p "$TRACES" "$WORK"
  # Recorders tell paths without symbolic links.
  TRACES=$(cd "$TRACES" && pwd -P)
  WORK=$(cd "$WORK" && pwd -P)
  PLACES=()
  trap clean EXIT
}

# However a recipe ends, it leaves its recording, if that is whole, and nothing else.
clean() {
  local status=$?
  [[ -z ${RECORDING_PID:-} ]] || kill -TERM "$RECORDING_PID" 2>/dev/null || true
  [[ -z ${DATA:-} ]] || as_postgres pg_ctl -D "$DATA" -m immediate stop >/dev/null 2>&1 || true
  wait
  ((status == 0)) || [[ -z ${RECORDING:-} ]] || rm -f "$TRACES/$RECORDING".{csv.zst,files.csv.zst,stats.json}
  rm -rf "${PLACES[@]}"
  rmdir --ignore-fail-on-non-empty "$WORK"
}

# new_place NAME: an empty folder, as $PLACE; the pattern $INSIDE is of the files in it.
new_place() {
  PLACE=$(mktemp -d "$WORK/$1.XXXXXX")
  PLACES+=("$PLACE")
  # bpftrace tells paths from the root of their file system.
  INSIDE="*/${PLACE##*/}/*"
}

# record NAME OPTION... -- COMMAND: the recording is NAME.csv.zst in $TRACES.
record() {
  RECORDING=$1
  shift
  "$THERMOCLINE" trace record ${RECORDER:+--with "$RECORDER"} -o "$TRACES/$RECORDING.csv.zst" "$@"
}

# PostgreSQL refuses root, so root lends it to the user of the package.
as_postgres() {
  if ((EUID == 0)); then runuser -u postgres -- "$@"; else "$@"; fi
}

need_postgresql() { need initdb postgresql pgbench postgresql psql postgresql-client; }

# new_cluster: an empty cluster in $DATA.
new_cluster() {
  new_place postgresql
  # Sockets have short names.
  SOCKETS=$(mktemp -d /tmp/recipe.XXXXXX)
  PLACES+=("$SOCKETS")
  ((EUID != 0)) || chown postgres "$PLACE" "$SOCKETS"
  as_postgres test -w "$PLACE" || {
    echo "the user postgres cannot write to $PLACE: give a folder that it can get to as WORK" >&2
    exit 3
  }
  as_postgres initdb -D "$PLACE/data" -U postgres -A trust --no-sync >/dev/null
  DATA=$PLACE/data
  export PGHOST=$SOCKETS PGUSER=postgres PGDATABASE=postgres
  SERVER=(postgres -D "$DATA" -k "$SOCKETS" -c listen_addresses= -c "shared_buffers=${SHARED_BUFFERS:-16MB}")
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
  RECORDING=$1
  shift
  rm -f "$TRACES/$RECORDING.csv.zst"
  local run=()
  ((EUID != 0)) || run=(runuser -u postgres --)
  # shellcheck disable=SC2016 # It is for the inner shell.
  record "$RECORDING" --page-size 8KiB --include "$INSIDE" -- \
    "${run[@]}" bash -c 'exec "$@" 2>"$0"' "$PLACE/log" "${SERVER[@]}" &
  RECORDING_PID=$!
  until pg_isready -q; do
    # It takes its time where the recorder attaches first.
    kill -0 "$RECORDING_PID" 2>/dev/null || { cat "$PLACE/log" >&2; exit 1; }
    sleep 0.2
  done
  "$@"
  as_postgres pg_ctl -D "$DATA" -m immediate stop >/dev/null
  # Its status is that of a server that was stopped.
  wait "$RECORDING_PID" || true
  RECORDING_PID=
  [[ -f $TRACES/$RECORDING.csv.zst ]]
}
