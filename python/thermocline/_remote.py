"""Files that lie elsewhere."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, cast

from thermocline.errors import FileError, TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import PathLike

__all__: list[str] = []


def is_url(path: str | PathLike[str]) -> bool:
    """Return True if fsspec must fetch it."""
    text = os.fspath(path)
    return "://" in text or "::" in text


def fetch(url: str, folder: str, options: Mapping[str, Any] | None = None) -> str:
    """Copy what a URL names to a folder, where it appears whole, and return its path."""
    name = url.rstrip("/").rsplit("/", 1)[-1] or "trace"
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as target:
        with opened(url, options) as source:
            shutil.copyfileobj(source, target)
        place = Path(tempfile.mkdtemp(dir=folder)) / name
        Path(target.name).rename(place)
    return str(place)


def sha256(url: str, options: Mapping[str, Any] | None = None) -> str:
    """Hash what a URL names, without a copy of it."""
    digest = hashlib.sha256()
    with opened(url, options) as source:
        while chunk := source.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def opened(
    url: str, options: Mapping[str, Any] | None = None, mode: Literal["rb", "wb"] = "rb"
) -> Iterator[IO[bytes]]:
    """Open what a URL names; `options` are fsspec's for its kind of storage."""
    try:
        import fsspec  # noqa: PLC0415, it is optional
    except ImportError:
        message = f"{url}: this URL needs fsspec: `pip install fsspec`"
        raise TraceError(message) from None
    try:
        with fsspec.open(url, mode, **(options or {})) as file:
            yield cast("IO[bytes]", file)
    except (FileNotFoundError, ImportError, PermissionError, TypeError, ValueError) as error:
        # No file, no protocol, no right, an option that there is not: the same whenever it is
        # tried again.
        raise _failure(url, mode, error) from error
    except OSError as error:
        # Reading is tried again where that may help; what could not be written is kept here.
        if mode == "rb":
            raise
        raise _failure(url, mode, error) from error


def _failure(url: str, mode: Literal["rb", "wb"], error: Exception) -> Exception:
    if mode == "rb":
        return TraceError(f"{url}: cannot be fetched: {error}")
    return FileError(
        f"{url}: cannot be written: {error}; what is finished is kept on this machine: mend what "
        "is wrong, and run it again"
    )


def exists(url: str, options: Mapping[str, Any] | None = None) -> bool:
    """Return True if there is a file."""
    import fsspec  # noqa: PLC0415, it is optional

    system, path = fsspec.core.url_to_fs(url, **(options or {}))
    return bool(system.exists(path))


@contextlib.contextmanager
def local(path: str | PathLike[str], options: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Give the path of a file here: a URL's is fetched, and removed afterwards."""
    if not is_url(path):
        yield os.fspath(path)
        return
    with tempfile.TemporaryDirectory(prefix="thermocline-") as folder:
        yield fetch(os.fspath(path), folder, options)
