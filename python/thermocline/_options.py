"""The options that several functions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    import numpy as np

__all__ = ["HierarchyOptions", "Size", "Value"]

Size: TypeAlias = "str | int | np.integer[Any]"
"""The size of a tier: ``"64MiB"``, ``"5%"`` of the footprint, ``"4x"`` the tier above, pages."""

Value: TypeAlias = str | int | float | bool
"""The value of a parameter."""


class HierarchyOptions(TypedDict, total=False):
    """Options of the hierarchy in :func:`simulate` and :func:`compare`, besides its tiers.

    Attributes
    ----------
    devices : Mapping[str, str]
        The device of a tier, as in ``{"flash": "nvme-ssd"}``; see :func:`devices`.
    costs : Mapping[str, tuple[float, float]]
        Costs of reading and of writing a page in a tier, in milliseconds, each >= 0.
    latencies : Mapping[str, float]
        The access time of a tier in milliseconds, >= 0, for the average response.
    prices : Mapping[str, float]
        The price of a tier per GiB, >= 0, for the cost per I/O.
    device_file : str or PathLike
        A TOML file of more devices.
    parameters : Mapping[str, Value]
        Parameters of policies, as in ``{"nonhot_ratio": 0.1}`` or ``{"hat.nonhot_ratio": 0.1}``.
    write_miss : {"fetch", "allocate"}
        First action of a write miss: read the page from disk, or not.
    admit : str
        The identifier that decides which pages enter flash.
    timing : {"cost", "events"}
        A constant cost per page transfer, or devices with queues and response times.
    closed_loop : int
        Requests kept outstanding instead of the trace's times, >= 1; with ``timing="events"``.
    placement : str
        Placement handles of the drives of cache tiers, as in ``"handles=4,isolation=persistent"``;
        with ``timing="events"``.
    streams : str
        Chooser of the handle of each write: an identifier, ``"tier"``, ``"client"``, ``"volume"``,
        ``"class"``, ``"oracle"`` or ``"none"``.
    models : Mapping[str, str]
        The queueing device of a tier, as in ``{"flash": "mlc-sata-2011"}``.
    warm_up : int or str
        Accesses left out of the counts, or their share, as in ``"20%"``.
    over_time : int
        Intervals into which the trace is cut for figures over time, from 1 to 100,000.
    check : bool
        If True, the Ledger checks every action. Policies of Python always run under it.
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
    placement: str
    streams: str
    models: Mapping[str, str]
    warm_up: int | str
    over_time: int
    check: bool


def checked(options: HierarchyOptions) -> HierarchyOptions:
    """Refuse unknown options."""
    unknown = sorted(set(options) - set(HierarchyOptions.__annotations__))
    if unknown:
        known = ", ".join(HierarchyOptions.__annotations__)
        message = f"unknown option {', '.join(unknown)}; the options are: {known}"
        raise TypeError(message)
    return options
