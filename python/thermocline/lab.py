"""Functions of the lab on a trace."""

from __future__ import annotations

import json
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from thermocline import _thermocline
from thermocline._options import checked
from thermocline._progress import Progress, watching
from thermocline.errors import ConfigurationError
from thermocline.policy import Given, PolicyFactory, TwoTier, separate
from thermocline.results import (
    BufferComparison,
    Comparison,
    Identification,
    MissRatios,
    Plan,
    Run,
)
from thermocline.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Unpack

    from thermocline._options import HierarchyOptions, Size, Value

__all__ = ["buffer", "compare", "hot", "mrc", "plan", "simulate"]

TraceLike: TypeAlias = "Trace | str | PathLike[str]"
PolicyLike: TypeAlias = str | PolicyFactory | TwoTier


def _find(
    function: str,
    arguments: Mapping[str, object],
    trace: TraceLike,
    brought: list[Given],
    progress: Progress,
    unit: str,
    *,
    takes_clients: bool = False,
) -> Any:
    """Run a function of the lab on a trace, which may be that of several clients."""
    if not isinstance(trace, Trace | str | PathLike):
        message = (
            f"a trace of the type {type(trace).__name__}: give a Trace, or the path of a file; "
            "`Trace.from_arrays` and `Trace.from_arrow` make one of what you have"
        )
        raise TypeError(message)
    opened = trace if isinstance(trace, Trace) else Trace.open(trace)
    if opened.clients > 1 and not takes_clients:
        message = (
            f"`{function}` takes a trace of one client, and this one has {opened.clients}: "
            "pass the trace before it was split or merged"
        )
        raise ConfigurationError(message)
    with watching(progress, unit) as watch:
        found = _thermocline.find(function, dict(arguments), opened._compiled, brought, watch)
    return json.loads(found)


def simulate(
    trace: TraceLike,
    policy: PolicyLike,
    tiers: Mapping[str, Size],
    *,
    record: Sequence[str] = (),
    progress: Progress = None,
    **options: Unpack[HierarchyOptions],
) -> Run:
    """Replay a trace through one policy.

    Parameters
    ----------
    trace : Trace or str or PathLike
        The trace, or a file that :meth:`Trace.open` reads.
    policy : str or type
        A registered policy (see :func:`policies`), or a class of Python (see :class:`Policy`).
    tiers : Mapping[str, Size]
        The cache tiers, fastest first: ``ram`` and ``flash``, or ``l1`` to ``l8``. A size is
        pages > 0, ``"64MiB"``, ``"5%"`` of the footprint, or ``"4x"`` the tier above.
    record : Sequence[str], optional
        Records of every access, those of the warm-up too: ``"hits"``, ``"actions"``,
        ``"evictions"``, which are then tables of the :class:`Run`.
    progress : bool or callable, optional
        Show a progress bar, or call this function with it; default: a bar on a terminal.
    **options : HierarchyOptions
        More about the hierarchy; see :class:`HierarchyOptions`.

    Returns
    -------
    Run
        Results of the run.

    Raises
    ------
    ConfigurationError
        If the policy, a size or an option cannot be.
    TraceError
        If the trace cannot be read.
    LedgerError
        If the policy does what cannot be; the message names access, page and action.

    Examples
    --------
    >>> import thermocline as tc
    >>> trace = tc.Trace.generate("zipf", requests=5000, pages=1000, seed=3)
    >>> run = tc.simulate(trace, "face-gsc", {"ram": "5%", "flash": "4x"})
    >>> run.tiers.column("name").to_pylist()
    ['ram', 'flash', 'disk']
    >>> 0 < run.miss_ratio < 1
    True
    """
    names, brought = separate([policy], len(tiers))
    arguments = {"policies": names, "tiers": tiers, **checked(options)}
    if isinstance(record, str):
        record = [record]
    if not record:
        found = _find("simulate", arguments, trace, brought, progress, "runs", takes_clients=True)
        return Run(found)
    opened = trace if isinstance(trace, Trace) else Trace.open(trace)
    with watching(progress, "runs") as watch:
        text, arrays = _thermocline.record(
            dict(arguments), opened._compiled, brought, watch, list(record)
        )
    return Run(json.loads(text), arrays)


def compare(
    trace: TraceLike,
    policies: PolicyLike | Sequence[PolicyLike],
    tiers: Mapping[str, Size | Sequence[Size]],
    *,
    progress: Progress = None,
    **options: Unpack[HierarchyOptions],
) -> Comparison:
    """Replay a trace through many policies and sizes, on all processors.

    Parameters
    ----------
    trace : Trace or str or PathLike
        The trace, or a file that :meth:`Trace.open` reads.
    policies : str or type, or a sequence of them
        Registered policies by name, and classes of Python; ``"all"`` that run on the tiers.
    tiers : Mapping[str, Size or Sequence[Size]]
        The cache tiers, fastest first, each with one size or several, as in :func:`simulate`.
    progress : bool or callable, optional
        Show a progress bar, or call this function with it; default: a bar on a terminal.
    **options : HierarchyOptions
        More about the hierarchy; see :class:`HierarchyOptions`.

    Returns
    -------
    Comparison
        A row per size and policy, in the order in which they were given, policies last.

    Raises
    ------
    ConfigurationError
        If a policy, a size or an option cannot be.
    TraceError
        If the trace cannot be read.
    LedgerError
        If a policy does what cannot be; the message names access, page and action.

    Examples
    --------
    >>> import thermocline as tc
    >>> trace = tc.Trace.generate("zipf", requests=5000, pages=1000, seed=3)
    >>> found = tc.compare(trace, ["lru", "arc"], {"ram": ["1%", "10%"]})
    >>> found.table.select(["policy", "ram_pages"]).to_pylist()[:2]
    [{'policy': 'lru', 'ram_pages': 7}, {'policy': 'arc', 'ram_pages': 7}]
    """
    names, brought = separate(policies, len(tiers))
    arguments = {"policies": names, "tiers": tiers, **checked(options)}
    found = _find("compare", arguments, trace, brought, progress, "runs", takes_clients=True)
    return Comparison(found)


def mrc(
    trace: TraceLike,
    policies: PolicyLike | Sequence[PolicyLike] = "lru",
    *,
    sizes: Size | Sequence[Size] | None = None,
    flash_sizes: Size | Sequence[Size] | None = None,
    shards: float | None = None,
    shards_size: int | None = None,
    shards_by: Literal["even", "hash"] = "even",
    rate: float | None = None,
    seed: int = 1,
    check: bool = False,
    parameters: Mapping[str, Value] | None = None,
    write_miss: Literal["fetch", "allocate"] = "fetch",
    admit: str | None = None,
    progress: Progress = None,
) -> MissRatios:
    """Tell how often caches of many sizes miss, and when pages are used again.

    LRU's curve takes one pass over the trace, or over a sample of it (SHARDS). That of any other
    policy is found by miniature simulation.

    Parameters
    ----------
    trace : Trace or str or PathLike
        The trace, or a file that :meth:`Trace.open` reads.
    policies : str or type, or a sequence of them, optional
        Registered policies by name, and classes of Python, which have one tier here; ``"all"``.
    sizes : Size or Sequence[Size], optional
        The sizes of RAM; 32 from a thousandth of the footprint to all of it if not given.
    flash_sizes : Size or Sequence[Size], optional
        The sizes of flash, for policies of two tiers.
    shards : float, optional
        Look at this share of the pages for LRU and the figures of re-use, in ``(0, 1]``.
    shards_size : int, optional
        Look at no more than so many pages for them, >= 1; not together with `shards`.
    shards_by : {"even", "hash"}, optional
        How these pages are chosen: evenly from the hot ones to the cold ones, or by a hash, as the
        SHARDS paper does.
    rate : float, optional
        The share of pages that other policies are simulated on, in ``(0, 1]``; as little as each
        size allows if not given, 1 for all.
    seed : int, optional
        The seed of samples, >= 0.
    check : bool, optional
        If True, simulate every size in full as well, to measure the error of the curves.
    parameters : Mapping[str, Value], optional
        Parameters of policies.
    write_miss : {"fetch", "allocate"}, optional
        First action of a write miss: read the page from disk, or not.
    admit : str, optional
        The identifier that decides which pages enter flash.
    progress : bool or callable, optional
        Show a progress bar, or call this function with it; default: a bar on a terminal.

    Returns
    -------
    MissRatios
        A row per point of a curve.

    Raises
    ------
    ConfigurationError
        If a policy, a size or a rate cannot be.
    TraceError
        If the trace cannot be read.

    References
    ----------
    Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST '15.
    Waldspurger et al., "Cache Modeling and Optimization using Miniature Simulations", ATC '17.

    Examples
    --------
    >>> import thermocline as tc
    >>> trace = tc.Trace.generate("loop", requests=1000, pages=100, write_share=0)
    >>> curve = tc.mrc(trace, sizes=["50p", "100p"])
    >>> curve.table.column("miss_ratio").to_pylist()
    [1.0, 0.1]
    """
    names, brought = separate(policies, 1)
    arguments = {
        "policies": names,
        "sizes": sizes,
        "flash_sizes": flash_sizes,
        "shards": shards,
        "shards_size": shards_size,
        "shards_by": shards_by,
        "rate": rate,
        "seed": seed,
        "check": check,
        "parameters": parameters,
        "write_miss": write_miss,
        "admit": admit,
    }
    return MissRatios(_find("mrc", arguments, trace, brought, progress, "sizes"))


def plan(
    trace: TraceLike,
    budget: float,
    prices: Mapping[str, float],
    *,
    objective: Literal["p99", "io-time", "cost-per-io"] | None = None,
    min_lifetime_years: float | None = 5.0,
    currency: str = "USD",
    policies: PolicyLike | Sequence[PolicyLike] | None = None,
    disk_size: str | None = None,
    devices: Mapping[str, str] | None = None,
    drive: str | None = None,
    disk_model: str | None = None,
    closed_loop: int | None = None,
    seed: int = 1,
    output: str | PathLike[str] | None = None,
    progress: Progress = None,
) -> Plan:
    """Find tier sizes and a policy for a budget.

    Parameters
    ----------
    trace : Trace or str or PathLike
        The trace, with times or with a closed loop, or a file that :meth:`Trace.open` reads.
    budget : float
        Maximum cost of RAM, flash and disk together, > 0.
    prices : Mapping[str, float]
        The prices of ``ram``, ``flash`` and ``disk`` per GiB, each >= 0.
    objective : {"p99", "io-time", "cost-per-io"}, optional
        Objective; if not given, ``"p99"`` if that distinguishes the choices, else
        ``"io-time"``, with the reason in ``figures["objective_reason"]``.
    min_lifetime_years : float, optional
        Minimum lifetime of flash at the rated erases of its drive, >= 0; None if any will do. What
        wears out sooner is in ``figures["struck_out"]``, with the reason.
    currency : str, optional
        Currency of prices and the budget, a word of at most 8 letters.
    policies : str or type, or a sequence of them, optional
        Registered policies to choose from, or ``"all"``, and classes of Python, which run without
        an `output`.
    disk_size : str, optional
        The size of the disk, as in ``"4TiB"``; that of the trace's pages if not given.
    devices : Mapping[str, str], optional
        The device of a tier; see :func:`devices`.
    drive : str, optional
        The drive that flash is, or a TOML file; see :func:`drives`.
    disk_model : str, optional
        The model of the disk, as in ``"exos-x18"`` or ``"server:4"``.
    closed_loop : int, optional
        Requests kept outstanding instead of the trace's times, >= 1. If not given and nothing
        keeps pace with the trace's times, 8 are; ``figures["saturated_by"]`` then tells how many
        requests would have waited at one time.
    seed : int, optional
        The seed of samples, >= 0.
    output : str or PathLike, optional
        File to which the engine's configuration of the chosen point is written.
    progress : bool or callable, optional
        Show a progress bar, or call this function with it; default: a bar on a terminal.

    Returns
    -------
    Plan
        Choices that no other one beats in cost, latency and lifetime, and the best one.

    Raises
    ------
    ConfigurationError
        If the budget or a price cannot be, or nothing lasts as long as is asked.
    TraceError
        If the trace cannot be read.

    Examples
    --------
    >>> import thermocline as tc
    >>> trace = tc.Trace.generate("zipf", requests=3000, pages=500, seed=3)
    >>> found = tc.plan(trace, 0.01, {"ram": 4, "flash": 0.4, "disk": 0.02},
    ...                 policies="lru", objective="io-time", closed_loop=4)
    >>> found.chosen["policy"]
    'lru'
    """
    names, brought = (None, []) if policies is None else separate(policies, 2)
    arguments = {
        "budget": budget,
        "prices": prices,
        "objective": objective,
        "min_lifetime_years": min_lifetime_years,
        "currency": currency,
        "policies": names,
        "disk_size": disk_size,
        "devices": devices,
        "drive": drive,
        "disk_model": disk_model,
        "closed_loop": closed_loop,
        "seed": seed,
        "output": output,
    }
    return Plan(_find("plan", arguments, trace, brought, progress, "candidates"))


def buffer(
    trace: TraceLike,
    policies: str | Sequence[str],
    sizes: Size | Sequence[Size],
    *,
    ssd: str | None = None,
    ssd_size: str | None = None,
    precondition: Mapping[str, float] | None = None,
    placement: Mapping[str, int | str] | None = None,
    streams: str | None = None,
    flush_every: int | None = None,
    closed_loop: int | None = None,
    parameters: Mapping[str, Value] | None = None,
    check: bool = False,
    progress: Progress = None,
) -> BufferComparison:
    """Put write buffers in front of an SSD, or run them alone.

    Parameters
    ----------
    trace : Trace or str or PathLike
        The trace, with pages that are multiples of the drive's, or a file.
    policies : str or Sequence[str]
        Write buffers by name (see :func:`buffers`), or ``"all"``.
    sizes : Size or Sequence[Size]
        The sizes of the buffer, as in :func:`simulate`.
    ssd : str, optional
        The drive, by name (see :func:`drives`) or as a TOML file; none if not given.
    ssd_size : str, optional
        Its capacity, as in ``"4GiB"``, or ``"fit"`` for just what the trace needs.
    precondition : Mapping[str, float], optional
        Writes to it before the run: ``fill`` in ``[0, 1]``, ``overwrite`` >= 0, ``seed``.
    placement : Mapping[str, int | str], optional
        Placement handles of the drive: ``handles`` in ``[1, 16]``, ``isolation`` (``"initial"`` or
        ``"persistent"``), ``reclaim_unit_blocks`` >= 1.
    streams : str, optional
        Chooser of the placement handle of each write: an identifier by the hotness of the page,
        its ``"volume"``, the ``"class"`` of its file, ``"oracle"``, or ``"none"``. Without handles,
        the identifier that keeps hot and cold pages in different blocks.
    flush_every : int, optional
        Writes to the drive after which the host flushes it, >= 1.
    closed_loop : int, optional
        Requests kept outstanding instead of the trace's times, >= 1.
    parameters : Mapping[str, Value], optional
        Parameters of buffers, as in ``{"hwb.alpha": 0.5}``.
    check : bool, optional
        If True, the Ledger checks every action.
    progress : bool or callable, optional
        Show a progress bar, or call this function with it; default: a bar on a terminal.

    Returns
    -------
    BufferComparison
        A row per size and buffer.

    Raises
    ------
    ConfigurationError
        If a buffer, a size or an option cannot be.
    DeviceError
        If the drive is too small or wears out.
    TraceError
        If the trace cannot be read.

    Examples
    --------
    >>> import thermocline as tc
    >>> trace = tc.Trace.generate("zipf", requests=5000, pages=1000, write_share=1, seed=3)
    >>> found = tc.buffer(trace, ["lru", "fab"], ["128p"])
    >>> found.table.column("policy").to_pylist()
    ['lru', 'fab']
    """
    arguments = {
        "policies": policies,
        "sizes": sizes,
        "ssd": ssd,
        "ssd_size": ssd_size,
        "precondition": precondition,
        "placement": placement,
        "streams": streams,
        "flush_every": flush_every,
        "closed_loop": closed_loop,
        "parameters": parameters,
        "check": check,
    }
    return BufferComparison(_find("buffer", arguments, trace, [], progress, "buffers"))


def hot(
    trace: TraceLike,
    identifiers: str | Sequence[str],
    *,
    baseline: str = "wdac",
    count: Literal["writes", "reads", "reads,writes"] = "writes",
    interval: int | None = None,
    parameters: Mapping[str, Value] | None = None,
    progress: Progress = None,
) -> Identification:
    """Compare hot-data identifiers, access by access, with a baseline.

    Parameters
    ----------
    trace : Trace or str or PathLike
        The trace, or a file that :meth:`Trace.open` reads; of several clients, the accesses of
        all in their order.
    identifiers : str or Sequence[str]
        Identifiers by name (see :func:`identifiers`), or ``"all"``.
    baseline : str, optional
        The identifier whose word is taken for the truth: ``"wdac"``, ``"dam"`` or any other.
    count : {"writes", "reads", "reads,writes"}, optional
        The accesses that identifiers are told; the papers count writes.
    interval : int, optional
        Accesses per row of the figures over time, >= 1; for about fifty rows if not given.
    parameters : Mapping[str, Value], optional
        Parameters of identifiers, as in ``{"mbf.filters": 8}``.
    progress : bool or callable, optional
        Show a progress bar, or call this function with it; default: a bar on a terminal.

    Returns
    -------
    Identification
        A row per identifier, the baseline first unless it is named among them.

    Raises
    ------
    ConfigurationError
        If an identifier or a parameter cannot be, or the trace has none of these accesses.
    TraceError
        If the trace cannot be read.

    References
    ----------
    Park, Du, "Hot Data Identification for Flash-based Storage Systems Using Multiple Bloom
    Filters", MSST '11, section IV-B.

    Examples
    --------
    >>> import thermocline as tc
    >>> trace = tc.Trace.generate("zipf", requests=20_000, pages=2000, write_share=1, seed=3)
    >>> found = tc.hot(trace, ["mbf", "mhf"])
    >>> found.table.column("identifier").to_pylist()
    ['wdac', 'mbf', 'mhf']
    >>> found.table.column("false_identification_rate")[0].as_py()
    0.0
    """
    arguments = {
        "identifiers": identifiers,
        "baseline": baseline,
        "count": count,
        "interval": interval,
        "parameters": parameters,
    }
    found = _find("hot", arguments, trace, [], progress, "identifiers", takes_clients=True)
    return Identification(found)
