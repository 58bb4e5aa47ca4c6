"""Files that lie elsewhere."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from thermocline.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

__all__: list[str] = []


def is_url(path: str | PathLike[str]) -> bool:
    """Whether fsspec must fetch it."""
    text = os.fspath(path)
    return "://" in text or "::" in text


def fetch(url: str, folder: str) -> str:
    """Copy what a URL names to a folder, where it appears whole, and return its path."""
    try:
        import fsspec  # noqa: PLC0415, it is optional
    except ImportError:
        message = f"{url}: to fetch it, install fsspec: `pip install fsspec`"
        raise TraceError(message) from None
    name = url.rstrip("/").rsplit("/", 1)[-1] or "trace"
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as target:
        try:
            with fsspec.open(url, "rb") as source:
                shutil.copyfileobj(cast("IO[bytes]", source), target)
        except (FileNotFoundError, ImportError, ValueError) as error:
            # No file, no protocol, or no package for it: the same whenever it is tried again.
            message = f"{url}: cannot be fetched: {error}"
            raise TraceError(message) from error
        place = Path(tempfile.mkdtemp(dir=folder)) / name
        Path(target.name).rename(place)
    return str(place)


@contextlib.contextmanager
def local(path: str | PathLike[str]) -> Iterator[str]:
    """Give the path of a file here: a URL's is fetched, and removed afterwards."""
    if not is_url(path):
        yield os.fspath(path)
        return
    with tempfile.TemporaryDirectory(prefix="thermocline-") as folder:
        yield fetch(os.fspath(path), folder)
