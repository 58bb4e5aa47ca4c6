"""Charts in Vega-Lite, by Altair, and the words that stand beside lines."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from thermocline import _thermocline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["axis", "bars", "heat_maps", "labels", "lines"]

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


def _altair() -> Any:
    """Import Altair, or tell how to get it."""
    try:
        import altair as alt  # noqa: PLC0415, it is optional
    except ImportError:
        message = "for charts, install Altair: `pip install 'thermocline[chart]'`"
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


def _looks(alt: Any, rows: Sequence[Mapping[str, Any]]) -> tuple[Any, Any]:
    """Give colours and markers by label, the same in every chart and report."""
    names = list(dict.fromkeys(row["label"] for row in rows))
    styles = _thermocline.styles(names)
    colours, markers = ([style[place] for style in styles] for place in (0, 1))
    return (
        alt.Color("label:N", title=None, scale=alt.Scale(domain=names, range=colours)),
        alt.Shape("label:N", title=None, scale=alt.Scale(domain=names, range=markers)),
    )


def lines(
    rows: Sequence[Mapping[str, Any]], over: str, metric: str, *, is_log: bool = False
) -> Any:
    """Draw a line per label over a number; rows have `label`, `x` and `y`."""
    alt = _altair()
    scale = alt.Scale(type="log" if is_log else "linear", zero=False)
    colour, marker = _looks(alt, rows)
    return (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_line(point={"filled": True, "size": 50})
        .encode(
            x=alt.X("x:Q", title=over, scale=scale),
            y=alt.Y("y:Q", title=axis(metric), scale=alt.Scale(zero=False)),
            color=colour,
            shape=marker,
            tooltip=_tooltip(alt, over, metric),
        )
    )


def bars(rows: Sequence[Mapping[str, Any]], metric: str) -> Any:
    """Draw a bar per label."""
    alt = _altair()
    return (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_bar()
        .encode(
            x=alt.X("y:Q", title=axis(metric)),
            y=alt.Y("label:N", title=None, sort=None),
            color=_looks(alt, rows)[0].legend(None),
            tooltip=[
                alt.Tooltip("label:N", title="policy"),
                alt.Tooltip("y:Q", title=axis(metric)),
            ],
        )
    )


def heat_maps(rows: Sequence[Mapping[str, Any]], across: str, down: str, metric: str) -> Any:
    """Draw a map per label; rows have `label`, `across`, `down` and `y`."""
    alt = _altair()
    names = list(dict.fromkeys(row["label"] for row in rows))
    return (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_rect()
        .encode(
            x=alt.X("across:O", title=axis(across)),
            y=alt.Y("down:O", title=axis(down), sort="descending"),
            color=alt.Color("y:Q", title=axis(metric), scale=alt.Scale(scheme="viridis")),
            tooltip=[
                alt.Tooltip("label:N", title="policy"),
                alt.Tooltip("across:Q", title=axis(across)),
                alt.Tooltip("down:Q", title=axis(down)),
                alt.Tooltip("y:Q", title=axis(metric)),
            ],
        )
        .properties(width=180, height=180)
        .facet(facet=alt.Facet("label:N", title=None, sort=names), columns=3)
    )


def _tooltip(alt: Any, over: str, metric: str) -> list[Any]:
    return [
        alt.Tooltip("label:N", title="policy"),
        alt.Tooltip("x:Q", title=over),
        alt.Tooltip("y:Q", title=axis(metric)),
    ]
