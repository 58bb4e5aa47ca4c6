"""Policies written in Python, which run in the same lab as the registered ones.

A policy is a class. The lab makes an object of it for every run, tells it one access after the
other, and takes its answer: the moves of pages that the hierarchy makes. The Ledger follows them,
and refuses a move that could not happen or would lose a write.

Tiers are numbers, 0 for the fastest; the disk comes last and holds every page. Pages are dense
ids in order of first appearance in the trace, from 0; ``trace.page_numbers[page]`` is the page's
number on disk.

Examples
--------
>>> from collections import OrderedDict
>>> import thermocline as tc
>>> class Fifo(tc.Policy):
...     '''First in, first out, writing through.'''
...
...     def __init__(self, setup):
...         self.setup = setup
...         self.pages = OrderedDict()
...
...     def access(self, page, write):
...         disk = self.setup.disk
...         if page in self.pages:
...             return [tc.Serve(0, 0), *([tc.Copy(page, 0, disk)] if write else [])]
...         actions = []
...         if len(self.pages) == self.setup.capacity_pages[0]:
...             oldest, _ = self.pages.popitem(last=False)
...             actions.append(tc.Drop(oldest, 0))
...         self.pages[page] = None
...         actions += [tc.Copy(page, disk, 0), tc.Serve(disk, 0)]
...         return actions + ([tc.Copy(page, 0, disk)] if write else [])
>>> trace = tc.Trace.generate("zipf", requests=2000, pages=500, seed=7)
>>> both = tc.compare(trace, [Fifo, "fifo"], {"ram": 50}, progress=False)
>>> mine, theirs = both.runs
>>> mine.miss_ratio == theirs.miss_ratio
True
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from thermocline.errors import ConfigurationError

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Action", "Copy", "Drop", "Policy", "PolicyFactory", "Serve", "Setup"]


class Setup(NamedTuple):
    """The hierarchy that a policy is made for.

    Attributes
    ----------
    capacity_pages : tuple[int, ...]
        The capacity of each cache tier in pages, fastest first.
    pages : int
        How many pages there are; page ids are less.
    fetches : bool
        Whether a write miss reads the page from disk before it is written.
    """

    capacity_pages: tuple[int, ...]
    pages: int
    fetches: bool

    @property
    def disk(self) -> int:
        """The number of the disk, the tier below all caches."""
        return len(self.capacity_pages)


class Serve(NamedTuple):
    """The access is answered by a tier's copy; a write is absorbed by it.

    Every access is served exactly once. It costs one page read or write at `tier`.

    Attributes
    ----------
    found : int
        The fastest tier that held a current copy when the access arrived: there the hit counts.
    tier : int
        The tier that answers.
    """

    found: int
    tier: int


class Copy(NamedTuple):
    """The page is read at one tier and written at another.

    Attributes
    ----------
    page : int
        The page that moves.
    source : int
        The tier that is read.
    target : int
        The tier that is written.
    """

    page: int
    source: int
    target: int


class Drop(NamedTuple):
    """The copy of a tier is given up. It costs nothing.

    Attributes
    ----------
    page : int
        The page that leaves.
    tier : int
        The tier that it leaves.
    """

    page: int
    tier: int


Action: TypeAlias = Serve | Copy | Drop
"""One move of a page."""


class Policy(ABC):
    """A policy written in Python; any class with such a method will do.

    Parameters
    ----------
    setup : Setup
        The hierarchy; a new object is made for every run.

    Attributes
    ----------
    name : str
        What results call it; the name of the class unless it is set. No registered policy may
        have it.
    """

    @abstractmethod
    def access(self, page: int, write: bool) -> Iterable[Action]:
        """Answer one access with the moves that the hierarchy makes, in order.

        Parameters
        ----------
        page : int
            The page, a dense id from 0.
        write : bool
            Whether it is written, or else read.

        Returns
        -------
        Iterable[Action]
            The moves, exactly one :class:`Serve` among them. Capacities hold after the last.
        """


PolicyFactory: TypeAlias = Callable[[Setup], "Any"]
"""A class of policies, or a function with a ``name`` that makes one."""


class Given(NamedTuple):
    """A policy as the extension takes it."""

    name: str
    factory: Callable[[tuple[int, ...], int, bool], Any]
    tiers: int


def given(policy: PolicyFactory, tiers: int) -> Given:
    """Hand over a policy for so many cache tiers."""
    name = getattr(policy, "name", None) or getattr(policy, "__name__", None)
    if not callable(policy) or not isinstance(name, str):
        message = (
            f"{policy!r} is no policy: give the name of a registered one, or a class with a "
            "method `access(page, write)`; a function that makes one needs an attribute `name`"
        )
        raise ConfigurationError(message)
    if not name or "," in name or "=" in name:
        message = f"a policy cannot be called {name!r}: take a name without commas"
        raise ConfigurationError(message)

    def make(capacity_pages: tuple[int, ...], pages: int, fetches: bool) -> Any:
        return policy(Setup(capacity_pages, pages, fetches))

    return Given(name, make, tiers)
