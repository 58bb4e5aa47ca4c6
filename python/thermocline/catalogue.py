"""Lists of everything that can be chosen: policies, identifiers, buffers, devices, drives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thermocline import _thermocline

if TYPE_CHECKING:
    from os import PathLike

__all__ = [
    "Device",
    "Entry",
    "Parameter",
    "buffers",
    "devices",
    "drives",
    "identifiers",
    "policies",
]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a policy or an identifier.

    Attributes
    ----------
    name : str
        Its name.
    default : str
        Its default, as text.
    range : str
        Valid values, in words.
    kind : str
        Type of a value: ``"integer"``, ``"real"``, ``"switch"``, ``"choice"`` (one word) or
        ``"words"`` (one or more, joined by ``+``).
    summary : str
        Effect.
    source : str
        Origin of the default.
    min, max : float or None
        The least and the greatest value, of a number.
    words : tuple[str, ...] or None
        The words to choose from.
    """

    name: str
    default: str
    range: str
    kind: str
    summary: str
    source: str
    min: float | None = None
    max: float | None = None
    words: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Entry:
    """A registered policy, identifier or write buffer.

    Attributes
    ----------
    name : str
        Its name.
    summary : str
        Purpose, in one line.
    source : str
        Authors, venue and year of the publication.
    parameters : tuple[Parameter, ...]
        Its parameters.
    tiers : str or None
        The hierarchies that it runs on, in words, for a policy.
    clients : str or None
        Clients that may share its lower tiers, for a policy: ``"one"`` or ``"several"``.
    """

    name: str
    summary: str
    source: str
    parameters: tuple[Parameter, ...]
    tiers: str | None = None
    clients: str | None = None


@dataclass(frozen=True)
class Device:
    """A device of the cost model.

    Attributes
    ----------
    name : str
        Its name.
    summary : str
        Description.
    read_ms : float
        Cost of reading a page, unit: ms.
    write_ms : float
        Cost of writing a page, unit: ms.
    source : str
        Source of the figures.
    """

    name: str
    summary: str
    read_ms: float
    write_ms: float
    source: str


def _catalogue(kind: str, device_file: str | PathLike[str] | None = None) -> Any:
    return json.loads(_thermocline.catalogue(kind, device_file))


def _entries(kind: str) -> list[Entry]:
    entries = []
    for entry in _catalogue(kind):
        parameters = tuple(_parameter(one) for one in entry.pop("parameters"))
        entries.append(Entry(**entry, parameters=parameters))
    return entries


def _parameter(listed: dict[str, Any]) -> Parameter:
    words = listed.pop("words", None)
    return Parameter(**listed, words=None if words is None else tuple(words))


def policies() -> list[Entry]:
    """Return the registered policies.

    Returns
    -------
    list[Entry]
        All of them, in the order in which they are listed.

    Examples
    --------
    >>> import thermocline as tc
    >>> "hat" in [policy.name for policy in tc.policies()]
    True
    """
    return _entries("policies")


def identifiers() -> list[Entry]:
    """Return the hot-data identifiers.

    Returns
    -------
    list[Entry]
        All of them, in the order in which they are listed.

    Examples
    --------
    >>> import thermocline as tc
    >>> tc.identifiers()[0].name
    'mbf'
    """
    return _entries("identifiers")


def buffers() -> list[Entry]:
    """Return the write buffers.

    Returns
    -------
    list[Entry]
        All of them, in the order in which they are listed.

    Examples
    --------
    >>> import thermocline as tc
    >>> "hwb" in [buffer.name for buffer in tc.buffers()]
    True
    """
    return _entries("buffers")


def devices(device_file: str | PathLike[str] | None = None) -> list[Device]:
    """Return the devices of the cost model.

    Parameters
    ----------
    device_file : str or PathLike, optional
        A TOML file of more devices.

    Returns
    -------
    list[Device]
        All of them, those of the file last.

    Raises
    ------
    FileError
        If the file cannot be read, or is not as expected.

    Examples
    --------
    >>> import thermocline as tc
    >>> [device.name for device in tc.devices()][0]
    'memory'
    """
    found = _catalogue("devices", device_file)
    return [Device(**one) for one in found]


def drives() -> dict[str, list[dict[str, Any]]]:
    """Return the drives that queue requests.

    Returns
    -------
    dict
        ``"ssd"`` and ``"hdd"``, each a list of drives with every field, as a TOML file of one's
        own gives it.

    Examples
    --------
    >>> import thermocline as tc
    >>> "ssdsim" in [drive["name"] for drive in tc.drives()["ssd"]]
    True
    """
    found: dict[str, list[dict[str, Any]]] = _catalogue("drives")
    return found
