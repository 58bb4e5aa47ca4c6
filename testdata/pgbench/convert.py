#!/usr/bin/env python3
"""Turn an strace recording of a PostgreSQL server into a page trace.

Usage: convert.py RECORDING BEGIN END DATA_FOLDER OUTPUT_CSV OUTPUT_FILES_CSV
       convert.py --self-test

The recording is made with ``strace -f -ttt -y``, so that every call shows the path of its file.
Calls that began between the times BEGIN and END (seconds) and read or wrote a file below
DATA_FOLDER become requests of OUTPUT_CSV: ``timestamp_us,op,volume,offset,length``. Segments of
1 GiB are joined to their relation. OUTPUT_FILES_CSV names the volumes. A line that is not
understood is counted, and any of them makes the conversion fail; so does an empty trace.

Every request carries its path (as it is named at the call, so renamed log files count as new ones)
and its offset, so no table of descriptors is needed: close, dup, fork and reused process numbers
cannot mislead it. Files that are read or written as a whole, not in pages (configuration, status,
the cached catalogue), are left out and counted.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

SEGMENT_BYTES = 1 << 30
# Calls that move bytes of a file. Those without an offset are not used by PostgreSQL on pages; they
# are accepted on the files below only.
POSITIONED = {"pread64": "R", "preadv": "R", "preadv2": "R", "pwrite64": "W", "pwritev": "W", "pwritev2": "W"}
UNPOSITIONED = {"read": "R", "write": "W", "readv": "R", "writev": "W"}
WHOLE_FILE = re.compile(
    r"(?:.*/)?(?:PG_VERSION|pg_internal\.init(?:\.\d+)?|pg_filenode\.map|pg_control)$"
    r"|postmaster\.(?:pid|opts)$|[\w.]+\.conf$|current_logfiles(?:\.tmp)?$"
    r"|(?:pg_stat|pg_stat_tmp|pg_logical|pg_replslot|pg_snapshots|pg_twophase)/"
)
LINE = re.compile(r"^(?:(\d+) +)?(\d+\.\d+) (.*)$")
UNFINISHED = re.compile(r"^(.*?) ?<unfinished \.\.\.>$")
RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>(.*)$")
CALL = re.compile(r"^(\w+)\((.*)\) += (-?\d+|\?)(?: .*)?$")
FIRST_PATH = re.compile(r"^\d+<([^>]*)>")
SEGMENT = re.compile(r"^(.*/\d+(?:_fsm|_vm|_init)?)\.(\d+)$")


class NotUnderstood(Exception):
    """A line that this converter has no meaning for."""


def join(lines, faults):
    """Yield (time, call text) of complete calls, halves put together per process."""
    halves = {}
    for line in lines:
        line = line.rstrip("\n")
        match = LINE.match(line)
        if not match:
            faults.append(line)
            continue
        process, time, text = match.groups()
        if text.startswith(("---", "+++")):
            continue
        half, rest = UNFINISHED.match(text), RESUMED.match(text)
        # Between the halves of a call, its process says nothing else.
        if (process in halves) != bool(rest):
            faults.append(line)
            continue
        if half:
            halves[process] = (time, half.group(1))
            continue
        if rest:
            time, begin = halves.pop(process)
            if not begin.startswith(rest.group(1) + "("):
                faults.append(line)
                continue
            text = begin + rest.group(2)
        yield float(time), text
    faults.extend(text for _, text in halves.values())


def request(text, folder, dropped):
    """Return (op, path, offset, length) of a call, or None if it is no page I/O below the folder."""
    call = CALL.match(text)
    if not call:
        raise NotUnderstood(text)
    name, arguments, result = call.groups()
    if name not in POSITIONED and name not in UNPOSITIONED:
        raise NotUnderstood(text)
    path = FIRST_PATH.match(arguments)
    if not path:
        raise NotUnderstood(text)
    path = path.group(1).removesuffix("(deleted)")
    if not path.startswith(folder + "/") or result == "?" or int(result) <= 0:
        return None
    path = path[len(folder) + 1 :]
    if name in UNPOSITIONED:
        if not WHOLE_FILE.match(path):
            raise NotUnderstood(text)
        dropped[path.rpartition("/")[2]] += 1
        return None
    last = arguments.rsplit(", ", 2 if name.endswith("2") else 1)
    if len(last) < 2 or not last[1].isdigit():
        raise NotUnderstood(text)
    return POSITIONED[name], path, int(last[1]), int(result)


def classify(path):
    """The class of a file: data, free-space map, visibility map, log, or other."""
    if path.startswith("pg_wal/"):
        return "log"
    if path.startswith(("base/", "global/")):
        if path.endswith("_fsm"):
            return "fsm"
        return "vm" if path.endswith("_vm") else "data"
    return "other"


def relation(path):
    """A file's volume and the segment of it that the file is."""
    match = SEGMENT.match(path)
    if match:
        return match.group(1), int(match.group(2))
    return path, 0


def convert(lines, begin, end, folder):
    """Return the rows of the trace in order of time, its volumes, and the calls left out."""
    rows, volumes, dropped, faults = [], {}, Counter(), []
    for time, text in join(lines, faults):
        try:
            found = request(text, folder, dropped if begin <= time <= end else Counter())
        except NotUnderstood as fault:
            faults.append(str(fault))
            continue
        if found and begin <= time <= end:
            rows.append((time, *found))
    if faults:
        sys.exit(f"{len(faults)} lines not understood, as: {faults[0]}")
    if not rows:
        sys.exit(f"no page of a file below {folder} was accessed between {begin} and {end}")
    rows.sort(key=lambda row: row[0])
    trace = []
    for time, op, path, offset, length in rows:
        volume, segment = relation(path)
        number = volumes.setdefault(volume, len(volumes))
        microseconds = round((time - rows[0][0]) * 1e6)
        trace.append((microseconds, op, number, segment * SEGMENT_BYTES + offset, length))
    return trace, list(volumes), dropped


def self_test():
    """Check the parser on the lines that are easily misread."""
    lines = [
        '7 1.000001 pread64(5</d/base/5/100.1>, ""..., 8192, 16384) = 8192',
        '7 1.000002 pwrite64(5</d/base/5/100>, ""..., 8192, 0 <unfinished ...>',
        "7 1.000004 <... pwrite64 resumed>) = 8192",
        "8 1.000005 pread64(6</d/base/5/100_fsm>,  <unfinished ...>",
        '8 1.000006 <... pread64 resumed>""..., 8192, 24576) = 8192',
        '8 1.000007 pread64(6</d/base/5/100>, ""..., 8192, 819200) = 0',
        "8 1.000008 pread64(6</d/base/5/100>, 0x7f, 8192, 0) = ? ERESTARTSYS (To be restarted)",
        "8 1.000009 pwritev(9</d/pg_wal/000000010000000000000001>(deleted), [{iov_len=8192}, {iov_len=8192}], "
        "2, 4096) = 16384",
        '9 1.000010 read(4<socket:[12]>, "x", 8192) = 1',
        '9 1.000011 pread64(6</d/base/5/100>, ""..., 8192, 40960) = 512',
        '9 1.000011 preadv2(6</d/base/5/100>, [], 1, 57344, RWF_HIPRI) = 8192',
        '9 1.000012 read(6</d/base/5/pg_internal.init>, ""..., 4096) = 4096',
        "9 1.000012 pread64(6</d/base/5/100>, 0x7f, 8192, 0) = -1 EIO (Input/output error)",
        "9 1.000012 --- SIGUSR1 {si_signo=SIGUSR1} ---",
        "9 1.000013 +++ exited with 0 +++",
    ]
    trace, volumes, dropped = convert(lines, 0.0, 9.0, "/d")
    expected = [
        (0, "R", 0, SEGMENT_BYTES + 16384, 8192),
        (1, "W", 0, 0, 8192),
        (4, "R", 1, 24576, 8192),
        (8, "W", 2, 4096, 16384),
        (10, "R", 0, 40960, 512),
        (10, "R", 0, 57344, 8192),
    ]
    assert trace == expected, trace
    assert volumes == ["base/5/100", "base/5/100_fsm", "pg_wal/000000010000000000000001"], volumes
    assert [classify(volume) for volume in volumes] == ["data", "fsm", "log"]
    assert dropped == {"pg_internal.init": 1}, dropped
    good = '7 1.0 pread64(5</d/base/5/1>, "", 8192, 0) = 8192'
    half = '7 1.1 pread64(5</d/base/5/1>, <unfinished ...>'
    rest = '7 1.2 <... pread64 resumed>"", 8192, 0) = 8192'
    for bad in (
        ["no line"],
        ["7 1.0 pread64(5</d/base/5/1>, "],
        ['7 1.0 read(5</d/base/5/1>, "", 8192) = 8192'],
        ['7 1.0 pread64(5, "", 8192, 0) = 8192'],
        ['7 1.0 lseek(5</d/base/5/1>, 0, SEEK_END) = 8192'],
        [rest],
        [half],
        [half, half, rest],
        [half, good, rest],
        [half, rest.replace("pread64", "pwrite64")],
    ):
        try:
            convert([good, *bad], 0.0, 9.0, "/d")
        except SystemExit as refusal:
            assert "not understood" in str(refusal), refusal
            continue
        raise AssertionError(f"accepted: {bad}")
    print("convert.py: self-test passed")


def main():
    """Convert as the command line says."""
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    recording, begin, end, folder, output, files = sys.argv[1:]
    with Path(recording).open(encoding="utf-8", errors="replace") as lines:
        trace, volumes, dropped = convert(lines, float(begin), float(end), folder)
    with Path(output).open("w", encoding="ascii") as out:
        out.write("timestamp_us,op,volume,offset,length\n")
        out.writelines(",".join(map(str, row)) + "\n" for row in trace)
    with Path(files).open("w", encoding="ascii") as out:
        out.write("volume,class,path\n")
        out.writelines(f"{n},{classify(path)},{path}\n" for n, path in enumerate(volumes))
    print(f"{len(trace)} requests of {len(volumes)} volumes; left out: {dict(dropped.most_common())}")


if __name__ == "__main__":
    main()
