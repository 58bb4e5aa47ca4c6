"""Progress of long work, as a bar or by calls of a function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

from tqdm import tqdm

__all__ = ["Progress"]

Progress: TypeAlias = bool | Callable[[int, int, int], object] | None
"""True for a progress bar (None: on a terminal only), or a function that gets the progress.

A function is called about twenty times per second with the steps that are done, the steps in all
(configurations, sizes, candidates or points; 0 before that is known), and the accesses that were
replayed. What it raises stops the work.
"""


@contextlib.contextmanager
def watching(progress: Progress, unit: str) -> Iterator[Callable[[int, int, int], object] | None]:
    """Give what is to be told how far the work is."""
    if callable(progress):
        yield progress
        return
    if progress is False:
        yield None
        return
    with tqdm(unit=unit, disable=None if progress is None else False, leave=False) as bar:
        yield _Bar(bar)


class _Bar:
    """A bar with the steps, and beside it the accesses."""

    def __init__(self, bar: tqdm) -> None:
        self.bar = bar

    def __call__(self, done: int, total: int, accesses: int) -> None:
        if total != self.bar.total or done < self.bar.n:
            self.bar.reset(total=total)
        self.bar.set_postfix_str(f"{accesses:,} accesses", refresh=False)
        self.bar.update(done - self.bar.n)
        self.bar.refresh()
