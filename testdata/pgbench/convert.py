#!/usr/bin/env python3
"""Turn an strace recording of a PostgreSQL server into a page trace.

Usage: convert.py RECORDING BEGIN END DATA_FOLDER OUTPUT_CSV OUTPUT_FILES_CSV
       convert.py --self-test

The recording is made with ``strace -f -ttt -y``, so that every call shows the path of its file.
Calls that began between the times BEGIN and END (seconds) and read or wrote a file below
DATA_FOLDER become requests of OUTPUT_CSV: ``timestamp_us,op,volume,offset,length``. Segments of
1 GiB are joined to their relation. OUTPUT_FILES_CSV names the volumes. A line that is not
understood is counted, and any of them makes the conversion fail.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SEGMENT_BYTES = 1 << 30
# Calls that move bytes of a file, with the place of the offset among their arguments (from the
# end). Calls without an offset are not used by PostgreSQL on its data; they are refused.
POSITIONED = {"pread64": "R", "preadv": "R", "preadv2": "R", "pwrite64": "W", "pwritev": "W", "pwritev2": "W"}
UNPOSITIONED = {"read": "R", "write": "W", "readv": "R", "writev": "W"}
LINE = re.compile(r"^(?:(\d+) +)?(\d+\.\d+) (.*)$")
UNFINISHED = re.compile(r"^(.*?) ?<unfinished \.\.\.>$")
RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>(.*)$")
CALL = re.compile(r"^(\w+)\((.*)\) += (-?\d+|\?)(?: .*)?$")
FIRST_PATH = re.compile(r"^\d+<([^>]*)>")
SEGMENT = re.compile(r"^(.*/\d+(?:_fsm|_vm|_init)?)\.(\d+)$")


class NotUnderstood(Exception):
    """A line that this converter has no meaning for."""


def join(lines):
    """Yield (time, call text) of complete calls, halves put together per process."""
    halves = {}
    for line in lines:
        line = line.rstrip("\n")
        match = LINE.match(line)
        if not match:
            raise NotUnderstood(line)
        process, time, text = match.groups()
        if text.startswith(("---", "+++")):
            continue
        if half := UNFINISHED.match(text):
            halves[process] = (time, half.group(1))
            continue
        if rest := RESUMED.match(text):
            if process not in halves:
                continue  # Began before the recorder was attached.
            time, begin = halves.pop(process)
            text = begin + rest.group(2)
        yield float(time), text


def request(text, folder):
    """Return (op, path, offset, length) of a call, or None if it is no I/O below the folder."""
    call = CALL.match(text)
    if not call:
        raise NotUnderstood(text)
    name, arguments, result = call.groups()
    if name not in POSITIONED and name not in UNPOSITIONED:
        return None
    path = FIRST_PATH.match(arguments)
    if not path:
        raise NotUnderstood(text)
    path = path.group(1).removesuffix("(deleted)")
    if not path.startswith(folder + "/") or result == "?" or int(result) <= 0:
        return None
    if name in UNPOSITIONED:
        if is_page_file(path[len(folder) + 1 :]):
            raise NotUnderstood(text)
        return None  # Configuration, statistics and status files, read from their start.
    last = arguments.rsplit(", ", 2 if name.endswith("2") else 1)
    offset = int(last[1])
    return POSITIONED[name], path[len(folder) + 1 :], offset, int(result)


def is_page_file(path):
    """Whether a file below the data folder is accessed in pages: relations, SLRUs, the log."""
    folder, _, name = path.rpartition("/")
    return folder.startswith(("base/", "global", "pg_xact", "pg_wal")) and name[:1].isdigit()


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
    """Return the rows of the trace, in order of time, and the volumes in order of appearance."""
    rows, volumes, faults = [], {}, []
    for time, text in join(lines):
        try:
            found = request(text, folder)
        except NotUnderstood as fault:
            faults.append(str(fault))
            continue
        if found and begin <= time <= end:
            rows.append((time, *found))
    if faults:
        sys.exit(f"{len(faults)} lines not understood, as: {faults[0]}")
    rows.sort(key=lambda row: row[0])
    trace = []
    for time, op, path, offset, length in rows:
        volume, segment = relation(path)
        number = volumes.setdefault(volume, len(volumes))
        microseconds = round((time - rows[0][0]) * 1e6)
        trace.append((microseconds, op, number, segment * SEGMENT_BYTES + offset, length))
    return trace, list(volumes)


def self_test():
    """Check the parser on the lines that are easily misread."""
    lines = [
        '7 1.000001 pread64(5</d/base/5/100.1>, ""..., 8192, 16384) = 8192',
        '7 1.000002 pwrite64(5</d/base/5/100>, ""..., 8192, 0 <unfinished ...>',
        "8 1.000003 lseek(3</d/base/5/9>, 0, SEEK_END) = 81920",
        "7 1.000004 <... pwrite64 resumed>) = 8192",
        "8 1.000005 pread64(6</d/base/5/100_fsm>,  <unfinished ...>",
        '8 1.000006 <... pread64 resumed>""..., 8192, 24576) = 8192',
        '8 1.000007 pread64(6</d/base/5/100>, ""..., 8192, 819200) = 0',
        "8 1.000008 pread64(6</d/base/5/100>, 0x7f, 8192, 0) = ? ERESTARTSYS (To be restarted)",
        '8 1.000009 pwritev(9</d/pg_wal/000000010000000000000001(deleted)>, [], 2, 4096) = 16384',
        '9 1.000010 read(4<socket:[12]>, "x", 8192) = 1',
        "9 1.000011 <... read resumed>) = 5",
        "9 1.000012 --- SIGUSR1 {si_signo=SIGUSR1} ---",
        "9 1.000013 +++ exited with 0 +++",
    ]
    trace, volumes = convert(lines, 0.0, 9.0, "/d")
    expected = [
        (0, "R", 0, SEGMENT_BYTES + 16384, 8192),
        (1, "W", 0, 0, 8192),
        (4, "R", 1, 24576, 8192),
        (8, "W", 2, 4096, 16384),
    ]
    assert trace == expected, trace
    assert volumes == ["base/5/100", "base/5/100_fsm", "pg_wal/000000010000000000000001"]
    assert [classify(volume) for volume in volumes] == ["data", "fsm", "log"]
    for bad in ["no line", "7 1.0 pread64(5</d/base/5/1>, ", '7 1.0 read(5</d/base/5/1>, "", 8192) = 8192']:
        try:
            convert([bad], 0.0, 9.0, "/d")
        except (NotUnderstood, SystemExit):
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
        trace, volumes = convert(lines, float(begin), float(end), folder)
    with Path(output).open("w", encoding="ascii") as out:
        out.write("timestamp_us,op,volume,offset,length\n")
        out.writelines(",".join(map(str, row)) + "\n" for row in trace)
    with Path(files).open("w", encoding="ascii") as out:
        out.write("volume,class,path\n")
        out.writelines(f"{n},{classify(path)},{path}\n" for n, path in enumerate(volumes))
    print(f"{len(trace)} requests of {len(volumes)} files")


if __name__ == "__main__":
    main()
