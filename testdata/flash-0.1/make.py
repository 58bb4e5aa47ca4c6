"""Make a cache whose server is killed, for a test that later programs read it.

Usage: make.py THERMOCLINE FOLDER SHARDS

THERMOCLINE is the program that makes the files; FOLDER is an empty folder. The script needs qemu-io (Debian:
qemu-utils) and zstd.
"""

import subprocess
import sys
import time
from pathlib import Path

PAGES = 512
PAGE_BYTES = 4096
CONFIGURATION = """
shards = {shards}
backing.path = "disk.img"
flash = {{ path = "flash.img", size = "512KiB" }}
ram.size = "128KiB"
policy.name = "lc"
nbd.socket = "socket"
"""


def last_version(page: int) -> int:
    """Return the last version of a page that a client wrote and flushed."""
    return 2 if page % 9 == 0 else 1 if page % 3 == 0 else 0


def content(page: int, version: int) -> int:
    """Return the byte that a version of a page repeats."""
    return (page * 7 + version * 101) % 251


def requests() -> str:
    """Return the orders for qemu-io: two rounds of writes, each with a flush and reads."""
    orders = []
    for version in (1, 2):
        pages = [page for page in range(PAGES) if last_version(page) >= version]
        orders += [
            f"write -P {content(page, version)} {page * PAGE_BYTES} {PAGE_BYTES}" for page in pages
        ]
        orders.append("flush")
        orders += [f"read {page * PAGE_BYTES} {PAGE_BYTES}" for page in range(0, PAGES, 4)] * 2
    return "\n".join(orders)


def main() -> None:
    """Make `disk.img`, its note and `flash.img`, and compress both images."""
    program, folder, shards = sys.argv[1], Path(sys.argv[2]).resolve(), sys.argv[3]
    disk = b"".join(bytes([content(page, 0)]) * PAGE_BYTES for page in range(PAGES))
    (folder / "disk.img").write_bytes(disk)
    (folder / "cache.toml").write_text(CONFIGURATION.format(shards=shards))
    with subprocess.Popen([program, "serve", "cache.toml"], cwd=folder) as server:
        while not (folder / "socket").exists():
            if server.poll() is not None:
                sys.exit("the server ended at its start")
            time.sleep(0.01)
        client = subprocess.run(
            ["qemu-io", "-f", "raw", "-t", "none", f"nbd+unix:///?socket={folder}/socket"],
            input=requests(),
            text=True,
            check=True,
            capture_output=True,
        )
        server.kill()
    if "failed" in client.stdout + client.stderr:
        sys.exit(client.stdout + client.stderr)
    subprocess.run(["zstd", "-19", "--rm", "disk.img", "flash.img"], cwd=folder, check=True)
    for name in ("socket", "socket.control", "cache.toml"):
        (folder / name).unlink(missing_ok=True)


main()
