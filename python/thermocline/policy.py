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

import contextlib
import hashlib
import importlib
import inspect
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from thermocline.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Action",
    "Algorithm",
    "CacheSetup",
    "CompiledEvictionPolicy",
    "Copy",
    "Drop",
    "EvictionPolicy",
    "Functions",
    "Policy",
    "PolicyFactory",
    "Serve",
    "Setup",
    "TwoTier",
]


class Setup(NamedTuple):
    """The hierarchy that a policy is made for.

    Attributes
    ----------
    capacity_pages : tuple[int, ...]
        The capacity of each cache tier in pages, fastest first.
    pages : int
        Number of pages; page ids are less.
    fetches : bool
        First action of a write miss: read the page from disk, or not.
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
        Name in results; that of the class unless it is set. No registered policy may
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
            True for a write, False for a read.

        Returns
        -------
        Iterable[Action]
            The moves, exactly one :class:`Serve` among them. Capacities hold after the last.
        """


class CacheSetup(NamedTuple):
    """The cache that an :class:`EvictionPolicy` is made for.

    Attributes
    ----------
    capacity_pages : int
        The capacity of the cache in pages, at least 1.
    pages : int
        Number of pages; page ids are less.
    """

    capacity_pages: int
    pages: int


class EvictionPolicy(ABC):
    """A replacement algorithm written in Python, which only keeps pages in order.

    The extension knows which pages are in the cache and which are dirty, moves them, and calls the
    hooks below. It runs wherever a policy does: as a policy of RAM over the disk, in
    :class:`TwoTier` as the algorithm of RAM or flash, in sweeps, and on a cluster. A
    :class:`CompiledEvictionPolicy` is the same for long traces.

    Parameters
    ----------
    setup : CacheSetup
        The cache; a new object is made for every run.

    Attributes
    ----------
    name : str
        Name in results; that of the class unless it is set. No registered policy may
        have it.

    Examples
    --------
    >>> from collections import OrderedDict
    >>> import thermocline as tc
    >>> class MyLru(tc.EvictionPolicy):
    ...     def __init__(self, setup):
    ...         self.order = OrderedDict()
    ...
    ...     def hit(self, page, write):
    ...         self.order.move_to_end(page)
    ...
    ...     def miss(self, page, write):
    ...         self.order[page] = None
    ...
    ...     def evict(self, page, write):
    ...         return self.order.popitem(last=False)[0]
    >>> trace = tc.Trace.generate("zipf", requests=2000, pages=500, seed=7)
    >>> mine, theirs = tc.compare(trace, [MyLru, "lru"], {"ram": 50}, progress=False).runs
    >>> mine.figures["tiers"] == theirs.figures["tiers"]
    True
    """

    @abstractmethod
    def hit(self, page: int, write: bool) -> object:
        """Hear that a page of the cache is accessed.

        Parameters
        ----------
        page : int
            The page, a dense id from 0.
        write : bool
            True for a write, False for a read.
        """

    @abstractmethod
    def miss(self, page: int, write: bool) -> object:
        """Hear that a page enters the cache; if the cache was full, :meth:`evict` came before.

        Parameters
        ----------
        page : int
            The page, a dense id from 0.
        write : bool
            True for a write, False for a read.
        """

    @abstractmethod
    def evict(self, page: int, write: bool) -> int:
        """Choose the page that leaves the full cache, and forget it.

        Parameters
        ----------
        page : int
            The page that is to enter.
        write : bool
            True for a write, False for a read.

        Returns
        -------
        int
            A page of the cache, which is not there any more afterwards; or `page` itself, which
            then does not enter, and :meth:`miss` is not called.
        """

    def remove(self, page: int) -> object:
        """Forget a page that the hierarchy takes out of the cache; :class:`TwoTier` needs it.

        Parameters
        ----------
        page : int
            A page of the cache.
        """
        message = (
            f"{type(self).__name__} has no method `remove(page)`, which page {page} needs to leave "
            "the tier"
        )
        raise NotImplementedError(message)


class Functions(NamedTuple):
    """The compiled functions of an algorithm, as the extension calls them.

    Each is the address of a C function that is given ``state``, ``length``, the page (``uint32_t``)
    and, except `remove`, whether it is written (``uint8_t``); `evict` returns a ``uint32_t``, the
    others nothing.

    Attributes
    ----------
    hit, miss, evict, remove : int
        Addresses of the hooks of an :class:`EvictionPolicy`.
    state : int
        The first argument of each: the address of the memory that the state is in.
    length : int
        The second one, an ``int64_t``: how many elements it has.
    owner : object
        Owner of functions and memory; it is dropped with the policy.
    """

    hit: int
    miss: int
    evict: int
    remove: int
    state: int
    length: int
    owner: object


class CompiledEvictionPolicy:
    """An :class:`EvictionPolicy` that Numba compiles, so that no access calls the interpreter.

    The state is one NumPy array, and the hooks are static methods on it in the part of Python that
    Numba compiles. A loop without end in one of them cannot be interrupted. With functions from
    elsewhere, such as a C library, override :meth:`functions` instead.

    Attributes
    ----------
    name : str
        Name in results; that of the class unless it is set.

    Examples
    --------
    >>> import numpy as np
    >>> import thermocline as tc
    >>> class MyFifo(tc.CompiledEvictionPolicy):
    ...     @staticmethod
    ...     def state(setup):
    ...         return np.zeros(setup.capacity_pages + 2, np.uint32)  # the ring, entered, left
    ...
    ...     @staticmethod
    ...     def hit(state, page, write):
    ...         pass
    ...
    ...     @staticmethod
    ...     def miss(state, page, write):
    ...         state[state[-2] % (len(state) - 2)] = page
    ...         state[-2] += 1
    ...
    ...     @staticmethod
    ...     def evict(state, page, write):
    ...         state[-1] += 1
    ...         return state[(state[-1] - 1) % (len(state) - 2)]
    >>> trace = tc.Trace.generate("zipf", requests=2000, pages=500, seed=7)
    >>> mine, theirs = tc.compare(trace, [MyFifo, "fifo"], {"ram": 50}, progress=False).runs
    >>> mine.miss_ratio == theirs.miss_ratio
    True
    """

    @staticmethod
    def state(setup: CacheSetup) -> NDArray[Any]:
        """Return the empty state.

        Parameters
        ----------
        setup : CacheSetup
            The cache.

        Returns
        -------
        NDArray
            Shape ``(n,)``, C-contiguous, of any type that Numba knows, structured ones too.
        """
        raise NotImplementedError

    @staticmethod
    def hit(state: NDArray[Any], page: int, write: bool) -> object:
        """Hear that a page of the cache is accessed; see :meth:`EvictionPolicy.hit`."""
        raise NotImplementedError

    @staticmethod
    def miss(state: NDArray[Any], page: int, write: bool) -> object:
        """Hear that a page enters the cache; see :meth:`EvictionPolicy.miss`."""
        raise NotImplementedError

    @staticmethod
    def evict(state: NDArray[Any], page: int, write: bool) -> int:
        """Choose the page that leaves the full cache; see :meth:`EvictionPolicy.evict`."""
        raise NotImplementedError

    @staticmethod
    def remove(state: NDArray[Any], page: int) -> object:
        """Forget a page that the hierarchy takes out; see :meth:`EvictionPolicy.remove`."""

    @classmethod
    def functions(cls, setup: CacheSetup) -> Functions:
        """Return the compiled hooks and the state of one run.

        Parameters
        ----------
        setup : CacheSetup
            The cache.

        Returns
        -------
        Functions
            Functions that the extension calls.

        Raises
        ------
        ImportError
            If Numba is not installed.
        ValueError
            If the state is not one C-contiguous array of one dimension.
        """
        state = np.asarray(cls.state(setup))
        if state.ndim != 1 or not state.flags.c_contiguous:
            message = (
                f"`{cls.__name__}.state` returned an array of the shape {state.shape}: expected a "
                "C-contiguous one of one dimension"
            )
            raise ValueError(message)
        compiled = _compiled(cls, state.dtype)  # type: ignore[arg-type]
        hit, miss, evict, remove = (one.address for one in compiled)
        owner = (compiled, state)
        return Functions(hit, miss, evict, remove, state.ctypes.data, len(state), owner)


@cache
def _compiled(policy: type[CompiledEvictionPolicy], state: np.dtype[Any]) -> tuple[Any, ...]:
    """Compile the hooks of a class for states of one type."""
    try:
        numba: Any = importlib.import_module("numba")
    except ImportError:
        message = "compiled policies need Numba: `pip install numba`"
        raise ImportError(message) from None
    pointer = numba.types.CPointer(numba.from_dtype(state))
    place = (pointer, numba.int64, numba.uint32)

    def heard(hook: Callable[..., Any], returns: Any) -> Any:
        inner = numba.njit(hook)

        def call(state: Any, length: Any, page: Any, write: Any) -> Any:
            return inner(numba.carray(state, length), page, write != 0)

        def tell(state: Any, length: Any, page: Any, write: Any) -> None:
            inner(numba.carray(state, length), page, write != 0)

        return numba.cfunc(returns(*place, numba.uint8))(tell if returns is numba.void else call)

    removed = numba.njit(policy.remove)

    def remove(state: Any, length: Any, page: Any) -> None:
        removed(numba.carray(state, length), page)

    return (
        heard(policy.hit, numba.void),
        heard(policy.miss, numba.void),
        heard(policy.evict, numba.uint32),
        numba.cfunc(numba.void(*place))(remove),
    )


Algorithm: TypeAlias = str | type[EvictionPolicy] | type[CompiledEvictionPolicy]
"""A registered replacement algorithm by name, or a class of one's own."""

PolicyFactory: TypeAlias = (
    Callable[[Setup], Any] | type[EvictionPolicy] | type[CompiledEvictionPolicy]
)
"""A class of policies or algorithms, or a function with a ``name`` that makes a policy."""


class TwoTier:
    """The policy ``two-tier`` with algorithms of one's own for RAM, flash or both.

    Its other parameters (``inclusion``, ``writes``, ``admission``, ``probability``, ``seed``) are
    given as those of a registered policy are.

    Parameters
    ----------
    ram, flash : str or type, optional
        A registered algorithm by name, which has its default parameters, or a class. A class
        needs the hook `remove`.
    name : str, optional
        Name in results; ``two-tier:RAM/FLASH`` if not given.

    Raises
    ------
    ConfigurationError
        If an algorithm is none, or has no `remove`.

    Examples
    --------
    >>> import thermocline as tc
    >>> trace = tc.Trace.generate("zipf", requests=2000, pages=500, seed=7)
    >>> policy = tc.TwoTier(ram="lru", flash="sieve")
    >>> run = tc.simulate(trace, policy, {"ram": 20, "flash": 80},
    ...                   parameters={"inclusion": "exclusive"}, progress=False)
    >>> run.policy
    'two-tier:lru/sieve'
    """

    def __init__(
        self, ram: Algorithm = "lru", flash: Algorithm = "lru", *, name: str | None = None
    ) -> None:
        for tier, algorithm in {"ram": ram, "flash": flash}.items():
            if isinstance(algorithm, str):
                continue
            if not _is_algorithm(algorithm):
                message = (
                    f"{tier}={algorithm!r}: expected the name of a registered algorithm, or a "
                    "class of EvictionPolicy or CompiledEvictionPolicy"
                )
                raise ConfigurationError(message)
            if algorithm.remove in (EvictionPolicy.remove, CompiledEvictionPolicy.remove):
                message = (
                    f"{tier}={algorithm.__name__}: `two-tier` takes pages out of a tier: define "
                    "`remove`, which forgets one"
                )
                raise ConfigurationError(message)
        self.algorithms = (ram, flash)
        self.name = name or f"two-tier:{_name(ram)}/{_name(flash)}"


class _MakesPolicy(NamedTuple):
    """Makes an object of a policy."""

    policy: Any

    def __call__(self, capacity_pages: tuple[int, ...], pages: int, fetches: bool) -> Any:
        return self.policy(Setup(capacity_pages, pages, fetches))


class Given(NamedTuple):
    """A policy as the extension takes it."""

    name: str
    identity: str
    tiers: int
    factory: _MakesPolicy | None
    algorithms: list[Any]
    is_compiled: bool


class _MakesAlgorithm(NamedTuple):
    """Makes what the extension calls of an algorithm."""

    algorithm: Any

    def __call__(self, capacity_pages: int, pages: int) -> Any:
        setup = CacheSetup(capacity_pages, pages)
        if _is_compiled(self.algorithm):
            return self.algorithm.functions(setup)
        return self.algorithm(setup)


def _is_compiled(policy: object) -> bool:
    return isinstance(policy, type) and issubclass(policy, CompiledEvictionPolicy)


def _is_algorithm(policy: object) -> bool:
    is_plain = isinstance(policy, type) and issubclass(policy, EvictionPolicy)
    return is_plain or _is_compiled(policy)


def _name(policy: object) -> Any:
    """Give what a policy or an algorithm is called."""
    if isinstance(policy, str):
        return policy
    return getattr(policy, "name", None) or getattr(policy, "__name__", None)


def given(policy: PolicyFactory | TwoTier, tiers: int) -> Given:
    """Convert a policy for this number of cache tiers."""
    name = _name(policy)
    is_policy = callable(policy) or isinstance(policy, TwoTier)
    if not is_policy or not isinstance(name, str):
        message = (
            f"invalid policy {policy!r}: pass the name of a registered policy, or a class with a "
            "method `access(page, write)`; a factory function needs an attribute `name`"
        )
        raise ConfigurationError(message)
    if not name or "," in name or "=" in name:
        message = f"invalid policy name {name!r}: use a name without `,` and `=`"
        raise ConfigurationError(message)
    if isinstance(policy, TwoTier):
        algorithms: tuple[Any, ...] = policy.algorithms
    else:
        algorithms = (policy,) if _is_algorithm(policy) else ()
    own = [one for one in algorithms if not isinstance(one, str)] if algorithms else [policy]
    return Given(
        name,
        identity="\n".join([name, *map(_identity, own)]),
        tiers=tiers,
        factory=None if algorithms else _MakesPolicy(policy),
        algorithms=[one if isinstance(one, str) else _MakesAlgorithm(one) for one in algorithms],
        is_compiled=bool(algorithms) and all(map(_is_compiled, own)),
    )


def separate(
    policies: Any,
    tiers: int,
) -> tuple[list[str], list[Given]]:
    """Separate the policies of Python, and give the names of all."""
    is_one = isinstance(policies, str | TwoTier) or callable(policies)
    names: list[str] = []
    brought: list[Given] = []
    for policy in [policies] if is_one else list(policies):
        if isinstance(policy, str):
            names.append(policy)
            continue
        one = given(policy, tiers)
        if any(other.name == one.name for other in brought):
            message = f"two policies have the name `{one.name}`: give one of them another `name`"
            raise ConfigurationError(message)
        brought.append(one)
        names.append(one.name)
    return names, brought


def _identity(policy: Any) -> str:
    """Tell what the results of a policy depend on: its `version`, and the source that it is in."""
    version = str(getattr(policy, "version", ""))
    if isinstance(policy, partial):
        arguments = f"{policy.args!r} {policy.keywords!r}"
        return f"{_identity(policy.func)} {arguments} {version}"
    digest = hashlib.sha256()
    for one in getattr(policy, "__mro__", (policy,)):
        module = getattr(one, "__module__", "")
        if one is object or module.split(".")[0] in {"abc", "thermocline"}:
            continue
        digest.update(_source(one).encode())
    return f"{digest.hexdigest()} {version}"


def _source(policy: Any) -> str:
    """Give the module that a class or function is in, or only itself if that is not a file."""
    with contextlib.suppress(OSError, TypeError):
        return inspect.getsource(inspect.getmodule(policy))  # type: ignore[arg-type]
    with contextlib.suppress(OSError, TypeError):
        return inspect.getsource(policy)
    # Nobody can tell whether it is the same as before, so no result is taken for finished.
    return uuid.uuid4().hex
