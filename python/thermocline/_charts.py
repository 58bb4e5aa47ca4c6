"""Charts that the lab makes and Altair opens, and the words that stand beside lines."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from thermocline import _thermocline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["axis", "bars", "heat_maps", "labels", "lines", "looks"]

_UNITS = {
    "ms": "ms",
    "us": "µs",
    "ns": "ns",
    "s": "s",
    "pages": "pages",
    "bytes": "bytes",
    "years": "years",
    "bits": "bits",
}
"""Units at the end of the names of columns."""

_MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "triangle-left": "<",
    "triangle-right": ">",
    "cross": "P",
}
"""Markers of Vega, and those of matplotlib."""


def _altair() -> Any:
    """Import Altair, or tell how to get it."""
    try:
        import altair as alt  # noqa: PLC0415, it is optional
    except ImportError:
        message = "charts need Altair: `pip install 'thermocline[chart]'`"
        raise ImportError(message) from None
    return alt


def axis(metric: str) -> str:
    """Give a column with its unit, as an axis says it."""
    name, _, unit = metric.rpartition("_")
    known = _units().get(metric)
    if unit in _UNITS and name:
        return f"{name.replace('_', ' ')} [{_UNITS[unit]}]"
    words = metric.replace("_", " ")
    return f"{words} [{known}]" if known else words


@cache
def _units() -> dict[str, str]:
    """Give the units of figures that their names do not say."""
    kinds = ("figures", "buffer figures", "identifier figures")
    rows = [row for kind in kinds for row in json.loads(_thermocline.catalogue(kind, None))]
    return {row["key"]: row["unit"] for row in rows if row["unit"]}


def labels(rows: Sequence[Mapping[str, Any]], name: str = "policy") -> list[str]:
    """Name each row by its trace and policy, and by those parameters in which rows differ."""
    found = [row.get("parameters") for row in rows]
    parameters = [json.loads(text) if isinstance(text, str) else dict(text or {}) for text in found]
    of_name: dict[Any, list[dict[str, Any]]] = {}
    for row, values in zip(rows, parameters, strict=True):
        of_name.setdefault(row[name], []).append(values)
    several = len({row.get("trace") for row in rows}) > 1
    texts = []
    for row, values in zip(rows, parameters, strict=True):
        others = of_name[row[name]]
        differing = [
            f"{key}={value}"
            for key, value in values.items()
            if any(other.get(key) != value for other in others)
        ]
        trace = [str(row["trace"])] if several else []
        texts.append(" ".join([*trace, str(row[name]), *differing]))
    return texts


def looks(names: Sequence[str]) -> list[dict[str, Any]]:
    """Give colour, marker and dashes of lines by name, as matplotlib takes them.

    They are the same in every chart and report.
    """
    return [
        {
            "color": colour,
            "marker": _MARKERS[marker],
            "linestyle": (0, tuple(dashes)) if dashes else "solid",
        }
        for colour, marker, dashes in _thermocline.styles(list(names))
    ]


def lines(
    points: Sequence[tuple[str, float, float]], over: str, metric: str, *, is_log: bool = False
) -> Any:
    """Draw a line per label through its points: label, x and y."""
    by_name: dict[str, dict[float, list[float]]] = {}
    for label, x, y in points:
        by_name.setdefault(label, {}).setdefault(x, []).append(y)
    # Where a label has several values, the place is there as often.
    most: dict[float, int] = {}
    for values in by_name.values():
        for x, found in values.items():
            most[x] = max(most.get(x, 0), len(found))
    places = [(x, number) for x in sorted(most) for number in range(most[x])]

    def value(values: dict[float, list[float]], x: float, number: int) -> float | None:
        found = values.get(x, [])
        return found[number] if number < len(found) else None

    described = {
        "kind": "lines",
        "title": f"{_title(metric)} over {over}",
        "x": {"title": over, "places": [x for x, _ in places], "is_log": is_log},
        "y_title": axis(metric),
        "lines": [
            {"name": name, "values": [value(values, *place) for place in places]}
            for name, values in by_name.items()
        ],
    }
    return _made(described)


def bars(named: Sequence[tuple[str, float]], metric: str) -> Any:
    """Draw a bar per label."""
    title = _title(metric)
    return _made({"kind": "bars", "title": title, "x_title": axis(metric), "bars": named})


def heat_maps(rows: Sequence[Mapping[str, Any]], across: str, down: str, metric: str) -> Any:
    """Draw a map per label; rows have `label`, `across`, `down` and `y`."""
    names = list(dict.fromkeys(row["label"] for row in rows))
    sizes = {side: sorted({row[side] for row in rows}) for side in ("across", "down")}
    values = {(row["label"], row["down"], row["across"]): row["y"] for row in rows}
    described = {
        "kind": "maps",
        "x": {"title": axis(across), "pages": sizes["across"]},
        "y": {"title": axis(down), "pages": sizes["down"]},
        "maps": [
            {
                "title": f"{name}: {axis(metric)}",
                "values": [
                    [values.get((name, row, column)) for column in sizes["across"]]
                    for row in sizes["down"]
                ],
            }
            for name in names
        ],
    }
    return _made(described)


def _made(described: Mapping[str, Any]) -> Any:
    """Have the lab make a chart, and open it by Altair."""
    alt = _altair()
    return alt.Chart.from_dict(json.loads(_thermocline.chart(json.dumps(described))))


def _title(metric: str) -> str:
    """Give a column as a chart is called after it."""
    words = axis(metric).partition(" [")[0]
    return words[:1].upper() + words[1:]
