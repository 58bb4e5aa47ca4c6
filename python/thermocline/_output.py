"""Outputs that lie elsewhere: made here, and written when they are complete."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thermocline import _remote
from thermocline._worker import Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__: list[str] = []


@contextlib.contextmanager
def staged(target: str, options: Mapping[str, Any] | None) -> Iterator[str]:
    """Give a path for an output, which is `target` itself unless that is a URL.

    The output of a URL begins as what is there, and is written there at the end. What an
    interrupted run has finished stays in a folder of this machine, where the next run finds it.
    """
    if not _remote.is_url(target):
        yield target
        return
    folder = Path(Node(None, 0).path()) / "outputs" / hashlib.sha256(target.encode()).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "output.parquet"
    if not place.exists() and _remote.exists(target, options):
        Path(_remote.fetch(target, str(folder), options)).replace(place)
    yield str(place)
    with place.open("rb") as source, _remote.opened(target, options, "wb") as file:
        shutil.copyfileobj(source, file)
    shutil.rmtree(folder)
