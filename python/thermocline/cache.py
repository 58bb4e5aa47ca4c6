"""A cache to hold in the hand: a registered policy, driven access by access."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from thermocline import _thermocline
from thermocline.errors import ConfigurationError
from thermocline.policy import Action, Copy, Drop, Serve
from thermocline.trace import _switches, _whole

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import ArrayLike, NDArray

    from thermocline._options import Size, Value
    from thermocline.trace import Trace

__all__ = ["Accessed", "Cache"]


class Accessed(NamedTuple):
    """Effect of one access of a :class:`Cache`.

    Attributes
    ----------
    hit : bool
        True if a cache tier held the page.
    found : str
        The fastest tier that held its newest version, or ``"disk"``.
    evicted : tuple[int, ...]
        The pages that left the cache, in order: no tier has a copy of them any more.
    actions : tuple[Action, ...]
        All moves of pages in order, with tiers by number, the disk last. A policy with a clock may
        have moves before that of the access.
    """

    hit: bool
    found: str
    evicted: tuple[int, ...]
    actions: tuple[Action, ...]


class Cache:
    """A cache of any registered policy, driven access by access.

    It decides as :func:`simulate` does on the same accesses. Pages are numbers from 0: those of a
    disk, or the page ids of a trace. Objects with other keys must be numbered, as
    ``numpy.unique(keys, return_inverse=True)`` does.

    A cache can be pickled and copied, because it keeps its accesses, 4 bytes each: the copy makes
    them again. `keep_history` switches that off. Threads may share a cache; the interpreter is free
    while :meth:`access_many` runs.

    Parameters
    ----------
    policy : str
        A registered policy; see :func:`policies`.
    size : Size or Mapping[str, Size], optional
        The size of RAM, or all tiers as for :func:`simulate`, as in ``{"l1": 10, "l2": 80}``.
    ram, flash : Size, optional
        The sizes of both tiers, in place of `size`.
    disk_pages : int, optional
        Number of pages of the disk, from 1 to 2**31, which is the default. Policies that keep
        something for each page of the disk, sizes in percent, and `admit` need it.
    trace : Trace, optional
        In place of a disk, the trace whose page ids the pages are. Oracles such as ``"opt"`` need
        it, and take its accesses in order.
    page_size : str or int, optional
        Bytes per page, for sizes in bytes; that of the trace if there is one.
    parameters : Mapping[str, Value], optional
        Parameters of the policy.
    write_miss : {"fetch", "allocate"}, optional
        First action of a write miss: read the page from disk, or not.
    admit : str, optional
        The identifier that decides which pages enter flash.
    devices : Mapping[str, str], optional
        The device of a tier, for policies that compare costs; see :func:`devices`.
    costs : Mapping[str, tuple[float, float]], optional
        Costs of reading and of writing a page in a tier, in milliseconds, for the same.
    device_file : str or PathLike, optional
        A TOML file of more devices.
    keep_history : bool, optional
        If True, keep the accesses, so that the cache can be pickled and copied.

    Raises
    ------
    ConfigurationError
        If the policy, a size or an option cannot be.

    Examples
    --------
    >>> import thermocline as tc
    >>> cache = tc.Cache("lru", 2)
    >>> [cache.access(page).hit for page in (7, 9, 7)]
    [False, False, True]
    >>> cache.access(8).evicted
    (9,)
    >>> 7 in cache, 9 in cache, len(cache)
    (True, False, 2)
    >>> cache.access_many([7, 9, 9], writes=[True, False, False])
    array([ True, False,  True])
    >>> hybrid = tc.Cache("hat", ram=10, flash=40)
    >>> hybrid.access(3, write=True).found, hybrid.tier(3)
    ('disk', 'ram')
    """

    def __init__(
        self,
        policy: str,
        size: Size | Mapping[str, Size] | None = None,
        *,
        ram: Size | None = None,
        flash: Size | None = None,
        disk_pages: int | np.integer[Any] | None = None,
        trace: Trace | None = None,
        page_size: str | int | None = None,
        parameters: Mapping[str, Value] | None = None,
        write_miss: Literal["fetch", "allocate"] = "fetch",
        admit: str | None = None,
        devices: Mapping[str, str] | None = None,
        costs: Mapping[str, tuple[float, float]] | None = None,
        device_file: str | PathLike[str] | None = None,
        keep_history: bool = True,
    ) -> None:
        if not isinstance(policy, str):
            message = (
                f"{policy!r}: a cache takes the name of a registered policy; `simulate` runs "
                "policies of Python"
            )
            raise TypeError(message)
        tiers = _tiers(size, ram, flash)
        if trace is not None and (disk_pages is not None or page_size is not None):
            message = "a trace determines the number of pages and their size: omit both"
            raise ConfigurationError(message)
        options: dict[str, Any] = {
            "policies": [policy],
            "tiers": tiers,
            "parameters": parameters,
            "write_miss": write_miss,
            "admit": admit,
            "devices": devices,
            "costs": costs,
            "device_file": device_file,
        }
        self._made_of = (options, trace, _disk(disk_pages), str(page_size or "4KiB"), keep_history)
        self._state = _made(self._made_of)
        self._tiers = [*tiers, "disk"]
        self.policy = policy

    def access(
        self, page: int | np.integer[Any], write: bool = False, *, at_ns: int | None = None
    ) -> Accessed:
        """Access one page.

        Parameters
        ----------
        page : int
            The page, from 0.
        write : bool, optional
            True for a write, False for a read.
        at_ns : int, optional
            Time, unit: ns, >= 0, for policies that keep time; either all accesses have a time or
            none.

        Returns
        -------
        Accessed
            The tier that had the page, the pages that left, and all moves.

        Raises
        ------
        ConfigurationError
            If there is no such page, or an oracle expects another access of its trace.
        TypeError
            If the page is not a whole number.

        Examples
        --------
        >>> import thermocline as tc
        >>> tc.Cache("fifo", 1).access(5)
        Accessed(hit=False, found='disk', evicted=(), actions=(Copy(page=5, source=1, target=0),
            Serve(found=1, tier=0)))
        """
        found, moves, evicted = self._state.access(self._page(page), bool(write), at_ns)
        actions = tuple(_action(*move) for move in moves)
        name = self._tiers[found]
        return Accessed(name != "disk", name, tuple(evicted), actions)

    def access_many(
        self,
        pages: ArrayLike,
        writes: ArrayLike | None = None,
        *,
        at_ns: ArrayLike | None = None,
    ) -> NDArray[np.bool_]:
        """Access pages in order, without the interpreter.

        Ctrl-C ends it between two accesses; those before are done.

        Parameters
        ----------
        pages : array_like
            The pages, shape ``(n,)``, whole numbers from 0.
        writes : array_like, optional
            True for writes, shape ``(n,)``, bool; all are reads if not given.
        at_ns : array_like, optional
            Time of each access, shape ``(n,)``, unit: ns, >= 0, as for :meth:`access`.

        Returns
        -------
        NDArray[np.bool_]
            True for pages that a cache tier held, shape ``(n,)``.

        Raises
        ------
        ConfigurationError
            If there is no such page, before any access; or if an oracle expects another access of
            its trace, with the accesses before done.

        Examples
        --------
        >>> import thermocline as tc
        >>> trace = tc.Trace.generate("zipf", requests=5000, pages=1000, seed=3)
        >>> cache = tc.Cache("arc", "5%", trace=trace)
        >>> hits = cache.access_many(trace.page_ids, trace.writes)
        >>> int(hits.sum()) == cache.hits
        True
        >>> cache.miss_ratio == tc.simulate(trace, "arc", {"ram": "5%"}).miss_ratio
        True
        """
        column = self._checked(pages)
        return self._state.access_many(
            column,
            None if writes is None else _switches("writes", writes, len(column)),
            None if at_ns is None else _whole("at_ns", at_ns, len(column)),
        )

    def __contains__(self, page: object) -> bool:
        return self.tier(page) != "disk"

    def __len__(self) -> int:
        """Return the number of pages that have a copy in a cache tier."""
        return len(self._state)

    def __repr__(self) -> str:
        caches = zip(self._tiers, self._state.held_pages, self._state.capacity_pages, strict=False)
        held = ", ".join(f"{name} {held:,} of {most:,} pages" for name, held, most in caches)
        return f"<thermocline.Cache {self.policy}: {held}>"

    def tier(self, page: object) -> str:
        """Return the fastest tier that holds the newest version of a page.

        Parameters
        ----------
        page : int
            The page, from 0.

        Returns
        -------
        str
            The name of a cache tier, or ``"disk"``.
        """
        return self._tiers[self._state.tier_of(self._page(page))]

    def is_dirty(self, page: int | np.integer[Any]) -> bool:
        """Return whether the disk's copy of a page is older than that of a cache tier.

        Parameters
        ----------
        page : int
            The page, from 0.

        Returns
        -------
        bool
            True if it is.
        """
        return self._state.is_dirty(self._page(page))

    def resident_pages(self, tier: str | None = None) -> NDArray[np.uint32]:
        """Return the pages of which a tier has a copy, current or not.

        Parameters
        ----------
        tier : str, optional
            The name of a cache tier; any of them if not given.

        Returns
        -------
        NDArray[np.uint32]
            The pages, ascending.

        Raises
        ------
        ConfigurationError
            If there is no such tier.
        """
        if tier is not None and tier not in self._tiers[:-1]:
            message = f"tier={tier!r}: the tiers are {', '.join(self._tiers[:-1])}"
            raise ConfigurationError(message)
        return self._state.resident_pages(None if tier is None else self._tiers.index(tier))

    @property
    def tiers(self) -> pa.Table:
        """A row per tier, the disk last, of what happened since the cache was empty.

        Columns: ``name``, ``capacity_pages`` and ``held_pages`` (null for the disk), ``hits``,
        ``read_hits``, ``write_hits``, ``hit_ratio`` (null before the first access),
        ``page_reads``, ``page_writes``.
        """
        counts = self._state.counts()
        accesses = sum(reads + writes for reads, writes, _, _ in counts)
        rows = []
        for place, (name, figures) in enumerate(zip(self._tiers, counts, strict=True)):
            read_hits, write_hits, page_reads, page_writes = figures
            is_disk = name == "disk"
            hits = read_hits + write_hits
            rows.append(
                {
                    "name": name,
                    "capacity_pages": None if is_disk else self._state.capacity_pages[place],
                    "held_pages": None if is_disk else self._state.held_pages[place],
                    "hits": hits,
                    "read_hits": read_hits,
                    "write_hits": write_hits,
                    "hit_ratio": hits / accesses if accesses else None,
                    "page_reads": page_reads,
                    "page_writes": page_writes,
                }
            )
        return pa.Table.from_pylist(rows)

    @property
    def accesses(self) -> int:
        """Number of accesses since the cache was empty."""
        return sum(reads + writes for reads, writes, _, _ in self._state.counts())

    @property
    def hits(self) -> int:
        """Number of accesses that found the page in a cache tier."""
        return sum(reads + writes for reads, writes, _, _ in self._state.counts()[:-1])

    @property
    def hit_ratio(self) -> float:
        """Hits divided by accesses, in ``[0, 1]``; not a number before the first access."""
        return 1.0 - self.miss_ratio

    @property
    def miss_ratio(self) -> float:
        """Accesses that no cache tier answers, divided by all; as :attr:`hit_ratio`."""
        *_, (read_misses, write_misses, _, _) = self._state.counts()
        accesses = self.accesses
        return (read_misses + write_misses) / accesses if accesses else float("nan")

    @property
    def gauges(self) -> dict[tuple[str, str], float]:
        """Values that the policy adapts, by name and tier."""
        return {(name, self._tiers[tier]): value for name, tier, value in self._state.gauges()}

    @property
    def memory_bytes(self) -> int:
        """The memory of the policy's state, without the history of accesses."""
        return self._state.memory_bytes

    def reset(self) -> None:
        """Forget all pages, counts and accesses."""
        self._state.reset()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what the cache is made of, and its accesses, which are then made again."""
        history = self._state.history()
        if history is None:
            message = "a cache with `keep_history=False` can be neither pickled nor copied"
            raise TypeError(message)
        return _again, (self.policy, self._made_of, self._tiers, *history)

    def _page(self, page: object) -> int:
        if isinstance(page, bool | np.bool_) or not isinstance(page, Integral | np.integer):
            message = (
                f"page={page!r}: a page is a whole number; number other keys first, as by "
                "numpy.unique(keys, return_inverse=True)"
            )
            raise TypeError(message)
        number = int(page)
        if not 0 <= number < self._state.pages:
            message = f"page={number}: expected a number from 0 to {self._state.pages - 1}"
            raise ConfigurationError(message)
        return number

    def _checked(self, pages: ArrayLike) -> NDArray[np.uint32]:
        column = np.asarray(pages)
        if column.ndim != 1:
            message = f"pages have the shape {column.shape}: expected (n,)"
            raise ConfigurationError(message)
        if len(column) == 0:
            return np.empty(0, dtype=np.uint32)
        if not np.issubdtype(column.dtype, np.integer):
            self._page(column[0])
            message = f"pages have the type {column.dtype}: expected whole numbers"
            raise TypeError(message)
        outside = (column < 0) | (column >= self._state.pages)
        if outside.any():
            place = int(np.argmax(outside))
            message = (
                f"page {column[place]} at index {place}: expected numbers from 0 to "
                f"{self._state.pages - 1}"
            )
            raise ConfigurationError(message)
        return np.ascontiguousarray(column, dtype=np.uint32)


def _tiers(
    size: Size | Mapping[str, Size] | None, ram: Size | None, flash: Size | None
) -> dict[str, Size]:
    """Give the tiers of a cache, which are said in one of two ways."""
    named = {name: one for name, one in (("ram", ram), ("flash", flash)) if one is not None}
    if (size is None) == (not named):
        message = (
            'give the size of the cache: a number of pages, or `ram` and `flash`, or {"l1": ...}'
        )
        raise ConfigurationError(message)
    if size is None:
        return named
    return dict(size) if isinstance(size, Mapping) else {"ram": size}


def _disk(pages: int | np.integer[Any] | None) -> int | None:
    if pages is None:
        return None
    if isinstance(pages, bool) or not isinstance(pages, Integral) or not 1 <= pages <= 2**31:
        message = f"disk_pages={pages!r}: expected a whole number from 1 to 2**31"
        raise ConfigurationError(message)
    return int(pages)


def _made(made_of: tuple[Any, ...]) -> _thermocline.Cache:
    """Make an empty cache."""
    options, trace, disk_pages, page_size, keeps_history = made_of
    compiled = None if trace is None else trace._compiled
    return _thermocline.Cache(dict(options), compiled, disk_pages, page_size, keeps_history)


def _again(
    policy: str,
    made_of: tuple[Any, ...],
    tiers: list[str],
    packed: NDArray[np.uint32],
    at_ns: NDArray[np.uint64],
) -> Cache:
    """Make a pickled cache, and its accesses again."""
    cache = Cache.__new__(Cache)
    cache.policy, cache._made_of, cache._tiers = policy, made_of, tiers
    cache._state = _made(made_of)
    write = np.uint32(1 << 31)
    times = at_ns if len(at_ns) else None
    cache._state.access_many(packed & ~write, (packed & write) != 0, times)
    return cache


def _action(kind: int, page: int, first: int, second: int) -> Action:
    """Give an action of the extension as a move."""
    if kind == 0:
        return Serve(first, second)
    return Copy(page, first, second) if kind == 1 else Drop(page, first)
