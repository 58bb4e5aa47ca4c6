"""From arguments of Python to words of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, TypeVar, cast

from thermocline.errors import ConfigurationError

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["HierarchyOptions", "Size", "Value"]

Size: TypeAlias = str | int
"""The size of a tier: ``"64MiB"``, ``"5%"`` of the footprint, ``"4x"`` the tier above, pages."""

_V = TypeVar("_V")

Value: TypeAlias = str | int | float | bool
"""The value of a parameter."""


class HierarchyOptions(TypedDict, total=False):
    """What :func:`simulate` and :func:`compare` know of the hierarchy besides its tiers.

    Attributes
    ----------
    devices : Mapping[str, str]
        The device of a tier, as in ``{"flash": "nvme-ssd"}``; see :func:`devices`.
    costs : Mapping[str, tuple[float, float]]
        What a page costs to read and to write in a tier, in milliseconds, each >= 0.
    latencies : Mapping[str, float]
        The access time of a tier in milliseconds, >= 0, for the average response.
    prices : Mapping[str, float]
        The price of a tier per GiB, >= 0, for the cost per I/O.
    device_file : str or PathLike
        A TOML file of more devices.
    parameters : Mapping[str, Value]
        Parameters of policies, as in ``{"nonhot_ratio": 0.1}`` or ``{"hat.nonhot_ratio": 0.1}``.
    write_miss : {"fetch", "allocate"}
        Whether a write miss reads the page from disk first.
    admit : str
        The identifier that decides which pages enter flash.
    timing : {"cost", "events"}
        A constant cost per page transfer, or devices with queues and response times.
    closed_loop : int
        Requests kept outstanding instead of the trace's times, >= 1; with ``timing="events"``.
    models : Mapping[str, str]
        The queueing device of a tier, as in ``{"flash": "mlc-sata-2011"}``.
    warm_up : int or str
        Accesses left out of the counts, or their share, as in ``"20%"``.
    over_time : int
        Intervals into which the trace is cut for figures over time, from 1 to 100,000.
    check : bool
        Whether the Ledger runs alongside. Policies of Python always run under it.
    """

    devices: Mapping[str, str]
    costs: Mapping[str, tuple[float, float]]
    latencies: Mapping[str, float]
    prices: Mapping[str, float]
    device_file: str | PathLike[str]
    parameters: Mapping[str, Value]
    write_miss: Literal["fetch", "allocate"]
    admit: str
    timing: Literal["cost", "events"]
    closed_loop: int
    models: Mapping[str, str]
    warm_up: int | str
    over_time: int
    check: bool


def word(value: object) -> str:
    """Write a value as the command line takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def size(value: Size) -> str:
    """Write a size; a number, NumPy's too, is pages."""
    if isinstance(value, bool) or not isinstance(value, str | Integral):
        message = f'{value!r} is no size: write pages, "64MiB", "5%" or "4x"'
        raise ConfigurationError(message)
    return value if isinstance(value, str) else f"{value}p"


def sizes(value: Size | Iterable[Size]) -> str:
    """Write one size or several."""
    is_one = isinstance(value, str | bytes) or not isinstance(value, Iterable)
    several = [cast("Size", value)] if is_one else list(cast("Iterable[Size]", value))
    if not several:
        message = "a list of sizes is empty: give at least one"
        raise ConfigurationError(message)
    return ",".join(size(one) for one in several)


def names(value: str | Iterable[str]) -> str:
    """Write one name or several."""
    several = [value] if isinstance(value, str) else list(value)
    if not several:
        message = "a list of names is empty: give at least one"
        raise ConfigurationError(message)
    for one in several:
        if not isinstance(one, str):
            message = f"{one!r} cannot be: it takes names"
            raise ConfigurationError(message)
    return ",".join(several)


def option(flag: str, value: object) -> list[str]:
    """Write an option; nothing for None and False, the flag alone for True."""
    if value is None or value is False:
        return []
    return [flag] if value is True else [f"{flag}={word(value)}"]


def pairs(flag: str, values: Mapping[str, object] | None) -> list[str]:
    """Write an option for each entry, as ``flag=name=value``."""
    given = mapping(flag, {} if values is None else values)
    return [f"{flag}={name}={word(value)}" for name, value in given.items()]


def mapping(flag: str, values: Mapping[str, _V]) -> Mapping[str, _V]:
    """Give what is a mapping, and refuse what is not."""
    if not isinstance(values, Mapping):
        message = f"{values!r} is no value of `{flag}`: it takes a mapping from names, a `dict`"
        raise ConfigurationError(message)
    return values


def tiers(values: Mapping[str, Size | Sequence[Size]]) -> list[str]:
    """Write the tiers, fastest first."""
    return [f"--tier={name}={sizes(value)}" for name, value in mapping("--tier", values).items()]


def costs(values: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """Write what a page costs to read and to write, per tier."""
    found = {}
    for name, cost in mapping("--cost", values).items():
        if not isinstance(cost, Sequence) or isinstance(cost, str) or len(cost) != 2:
            message = f"{cost!r} is no cost of `{name}`: it takes (READ_MS, WRITE_MS), two numbers"
            raise ConfigurationError(message)
        found[name] = f"{cost[0]}/{cost[1]}"
    return found


def hierarchy(options: HierarchyOptions) -> list[str]:
    """Write the options of a hierarchy."""
    unknown = sorted(set(options) - set(HierarchyOptions.__annotations__))
    if unknown:
        known = ", ".join(HierarchyOptions.__annotations__)
        message = f"there is no option {', '.join(unknown)}; there are: {known}"
        raise TypeError(message)
    return [
        *pairs("--device", options.get("devices")),
        *pairs("--cost", costs(options.get("costs", {}))),
        *pairs("--latency", options.get("latencies")),
        *pairs("--price", options.get("prices")),
        *option("--devices", options.get("device_file")),
        *pairs("--param", options.get("parameters")),
        *option("--write-miss", options.get("write_miss")),
        *option("--admit", options.get("admit")),
        *option("--timing", options.get("timing")),
        *option("--closed-loop", options.get("closed_loop")),
        *pairs("--model", options.get("models")),
        *option("--warm-up", options.get("warm_up")),
        *option("--over-time", options.get("over_time")),
        *option("--check", options.get("check")),
    ]
