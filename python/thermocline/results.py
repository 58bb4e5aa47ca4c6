"""What runs found: the figures of the JSON contract, as Arrow tables and as plots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from thermocline import _thermocline

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = [
    "BufferComparison",
    "Comparison",
    "Identification",
    "MissRatios",
    "Plan",
    "Result",
    "Run",
    "SweepResult",
]

Figures = Mapping[str, Any]

ACTIONS = ["serve", "copy", "drop"]
"""The words of recorded actions, by number."""

NO_TIER = 255
"""No tier, in recorded actions."""

_Points: TypeAlias = list[tuple[str, float, float | None]]
"""Points of lines: label, x and y."""


class Result:
    """Something that was found, as a table.

    It speaks the Arrow PyCapsule interface, so that ``polars.DataFrame(result)``,
    ``pyarrow.table(result)``, ``duckdb.from_arrow(result)`` and others take it without copying.

    Attributes
    ----------
    figures : dict or list
        All figures by the names of the JSON contract (``docs/json.md``).
    """

    _METRIC: ClassVar[str]
    """What is plotted if nothing else is asked for."""

    _OVER: ClassVar[str]
    """What it is plotted over."""

    def __init__(self, figures: Any) -> None:
        self.figures = figures

    @cached_property
    def table(self) -> pa.Table:
        """The table; what a row is, and what the columns are, the class says."""
        return pa.Table.from_pylist(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a frame of pandas, whose columns are Arrow's.

        Returns
        -------
        pandas.DataFrame
            The same rows and columns; nothing is copied.
        """
        try:
            import pandas as pd  # noqa: PLC0415, it is optional
        except ImportError:
            message = "for a frame of pandas, install it: `pip install pandas`"
            raise ImportError(message) from None
        frame: pd.DataFrame = self.table.to_pandas(types_mapper=pd.ArrowDtype)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return the table as a frame of polars.

        Returns
        -------
        polars.DataFrame
            The same rows and columns; nothing is copied.
        """
        try:
            import polars as pl  # noqa: PLC0415, it is optional
        except ImportError:
            message = "for a frame of polars, install it: `pip install polars`"
            raise ImportError(message) from None
        frame = pl.from_arrow(self.table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def plot(self, metric: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Plot a figure: over what, and what has a line, the class says.

        Parameters
        ----------
        metric : str, optional
            The column that is shown; the one that the class names if not given.
        ax : matplotlib.axes.Axes, optional
            Where to plot; a new figure if not given.

        Returns
        -------
        matplotlib.axes.Axes
            Where it was plotted.

        Raises
        ------
        KeyError
            If there is no such column.
        """
        ax = _axes(ax)
        self._draw(ax, self._METRIC if metric is None else metric)
        return ax

    def _draw(self, ax: Axes, metric: str) -> None:
        """Draw a line per label, through its points in the order of x."""
        points = self._points(metric)
        for label in dict.fromkeys(point[0] for point in points):
            line = sorted((x, y) for name, x, y in points if name == label and y is not None)
            ax.plot([x for x, _ in line], [y for _, y in line], marker=".", label=label)
        ax.legend()
        ax.set_xlabel(self._OVER)
        ax.set_ylabel(metric)

    def _points(self, metric: str) -> _Points:
        """Give the label, x and y of each point."""
        rows = self.table.to_pylist()
        return [(row["policy"], _cache_pages(row), row[metric]) for row in rows]

    def __len__(self) -> int:
        return len(self.table)

    def _repr_html_(self) -> str | None:
        """Show the table in a notebook, if pandas can draw it; else its text is shown."""
        try:
            html: str = self.to_pandas().to_html(max_rows=20, notebook=True)
        except ImportError:
            return None
        return html


@cache
def _declared(kind: str) -> list[dict[str, str]]:
    """Return the rows in which the lab declares its figures, of one kind."""
    declared: list[dict[str, str]] = json.loads(_thermocline.catalogue(kind, None))
    return declared


def _at(figures: Any, path: str, place: int) -> Any:
    """Give what is at a path of the JSON; `place` is that of the tier. None if nothing is there."""
    for name in path.split("."):
        found = figures.get(name.removesuffix("[]"))
        if found is None:
            return None
        figures = found[place] if name.endswith("[]") else found
    return figures


def _figures(kind: str, results: Figures, tiers: Sequence[str] = ()) -> dict[str, Any]:
    """Return all figures of one kind by their columns: those of tiers first."""
    row: dict[str, Any] = {}
    for place, tier in enumerate(tiers):
        for figure in _declared(kind):
            if figure["scope"] == "tier":
                row[f"{tier}_{figure['key']}"] = _at(results, figure["path"], place)
    for figure in _declared(kind):
        if figure["scope"] == "run":
            row[figure["key"]] = _at(results, figure["path"], 0)
    return row


def _run_row(figures: Figures) -> dict[str, Any]:
    """Flatten the figures of one run: a column per figure and tier."""
    policy = figures["policy"]
    row: dict[str, Any] = {
        "policy": policy["name"],
        "parameters": json.dumps(policy["parameters"], sort_keys=True),
    }
    for tier in figures["tiers"]:
        if tier["capacity_pages"] is not None:
            row[f"{tier['name']}_pages"] = tier["capacity_pages"]
    row |= _figures("figures", figures, [tier["name"] for tier in figures["tiers"]])
    return {name: value for name, value in row.items() if value is not None}


class Run(Result):
    """What one run found; its table has one row, with the columns of a :class:`Comparison`.

    A plot shows a column of :attr:`tiers`, ``hit_ratio`` if nothing else is asked for, as a bar
    for each tier; or ``hit_ratio`` or ``hits`` over time, if that was asked for.
    """

    _METRIC = "hit_ratio"

    def __init__(self, figures: Figures, recorded: Mapping[str, Any] | None = None) -> None:
        super().__init__(figures)
        self._recorded = dict(recorded or {})

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{tier['name']} {tier['capacity_pages']:,} pages"
            for tier in self.figures["tiers"][:-1]
        )
        return f"<thermocline.Run {self.policy}, {sizes}: miss ratio {self.miss_ratio:.4f}>"

    def _rows(self) -> list[dict[str, Any]]:
        return [_run_row(self.figures)]

    @property
    def policy(self) -> str:
        """The name of the policy."""
        name: str = self.figures["policy"]["name"]
        return name

    @property
    def parameters(self) -> dict[str, Any]:
        """All its parameters."""
        return dict(self.figures["policy"]["parameters"])

    @property
    def miss_ratio(self) -> float:
        """Accesses that no cache tier answers, divided by all; in ``[0, 1]``."""
        ratio: float = self.figures["tiers"][-1]["hit_ratio"]
        return ratio

    @property
    def hit_ratio(self) -> float:
        """Accesses that a cache tier answers, divided by all; in ``[0, 1]``."""
        return 1.0 - self.miss_ratio

    @property
    def io_time_ms(self) -> float:
        """All page transfers, each at the cost of its tier, unit: ms."""
        time: float = self.figures["io_time_ms"]
        return time

    @cached_property
    def tiers(self) -> pa.Table:
        """A row per tier, the disk last: hits, hit ratio, pages read and written, device."""
        return pa.Table.from_pylist(list(self.figures["tiers"]))

    @cached_property
    def hits(self) -> pa.Table | None:
        """A row per access; None unless ``record`` names ``"hits"``.

        Columns: ``found``, the fastest tier that held the page when the access arrived, and
        ``hit``, whether that was a cache.
        """
        found = self._recorded.get("hits.found")
        if found is None:
            return None
        disk = len(self._tier_names) - 1
        return pa.table({"found": self._named(found), "hit": pa.array(found < disk)})

    @cached_property
    def actions(self) -> pa.Table | None:
        """A row per action, in order; None unless ``record`` names ``"actions"``.

        Columns: ``access`` (its index in the trace), ``action`` (``serve``, ``copy`` or
        ``drop``), ``page_id``, ``source`` (the tier that answers, is read, or gives up its copy)
        and ``target`` (the tier that a copy writes, else null).
        """
        return self._record_table("actions")

    @cached_property
    def evictions(self) -> pa.Table | None:
        """A row per copy that a cache tier gives up; None unless ``record`` names them.

        Columns: ``access`` (its index in the trace), ``page_id`` and ``tier``. A page that moves
        up from a tier, and is dropped there, has a row as well.
        """
        return self._record_table("evictions")

    @property
    def _tier_names(self) -> list[str]:
        names = [tier["name"] for tier in self.figures["tiers"]]
        clients = len(self.figures.get("clients") or ())
        if clients:
            names[:1] = [f"{names[0]}#{client}" for client in range(clients)]
        return names

    def _named(self, tiers: NDArray[np.uint8]) -> pa.DictionaryArray:
        indices = pa.array(tiers.astype(np.int8), mask=tiers == NO_TIER)
        return pa.DictionaryArray.from_arrays(indices, self._tier_names)

    def _record_table(self, kind: str) -> pa.Table | None:
        prefix = f"{kind}."
        columns: dict[str, Any] = {}
        for name, array in self._recorded.items():
            if name.startswith(prefix):
                column = name.removeprefix(prefix)
                if column in {"tier", "source", "target"}:
                    columns[column] = self._named(array)
                elif column == "action":
                    indices = pa.array(array.astype(np.int8))
                    columns[column] = pa.DictionaryArray.from_arrays(indices, ACTIONS)
                else:
                    columns[column] = pa.array(array)
        return pa.table(columns) if columns else None

    @cached_property
    def clients(self) -> pa.Table | None:
        """A row per client; None with one.

        Columns: ``client``, ``accesses``, per tier that it sees ``TIER_hits``, ``hit_ratio``,
        ``average_response_ms``.
        """
        if not self.figures.get("clients"):
            return None
        names = [tier["name"] for tier in self.figures["tiers"]]
        rows = []
        for client in self.figures["clients"]:
            hits = zip(names, client["hits"], strict=True)
            row = {"client": client["client"], "accesses": client["accesses"]}
            row |= {f"{name}_hits": count for name, count in hits}
            row["hit_ratio"] = client["hit_ratio"]
            row["average_response_ms"] = client["average_response_ms"]
            rows.append(row)
        return pa.Table.from_pylist(rows)

    @cached_property
    def over_time(self) -> pa.Table | None:
        """A row per interval; None unless `over_time` was asked for."""
        if "over_time" not in self.figures:
            return None
        names = [tier["name"] for tier in self.figures["tiers"]]
        intervals = self.figures["over_time"]["intervals"]
        rows = [
            {"policy": self.policy} | _figures("interval figures", interval, names)
            for interval in intervals
        ]
        return pa.Table.from_pylist(rows)

    def _draw(self, ax: Axes, metric: str) -> None:
        names = self.tiers.column("name").to_pylist()
        if self.over_time is not None:
            x = self.over_time.column("end_accesses").to_pylist()
            shares = [self.over_time.column(f"{name}_{metric}").to_pylist() for name in names]
            ax.stackplot(x, shares, labels=names)
            ax.set_xlabel("accesses")
            ax.legend()
        else:
            ax.bar(names, self.tiers.column(metric).to_pylist())
        ax.set_ylabel(metric)
        ax.set_title(self.policy)


class Comparison(Result):
    """What many runs on one trace found; its table has a row per run, policies last.

    Columns: ``policy``, ``parameters`` (JSON); per tier ``TIER_pages`` (the disk has none); and
    every figure that a run has, by the names of ``docs/json.md``, such as ``TIER_hits``,
    ``TIER_page_writes``, ``miss_ratio``, ``io_time_ms`` and ``average_response_ms``; with prices
    ``cost_per_io``; with ``timing="events"`` ``read_p99_us``. A plot shows one of them,
    ``miss_ratio`` if nothing else is asked for, over the pages of all caches together.

    Attributes
    ----------
    runs : list[Run]
        The runs, in the order of the rows.
    """

    _METRIC = "miss_ratio"
    _OVER = "pages of all caches"

    def __init__(self, figures: Sequence[Figures]) -> None:
        super().__init__(figures)
        self.runs = [Run(one) for one in figures]

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __repr__(self) -> str:
        policies = ", ".join(dict.fromkeys(run.policy for run in self.runs))
        return f"<thermocline.Comparison of {policies}: {len(self.runs)} runs>"

    def _rows(self) -> list[dict[str, Any]]:
        return _equal([_run_row(run.figures) for run in self.runs])

    def best(self, metric: str = "io_time_ms") -> Run:
        """Return the run with the least of a figure.

        Parameters
        ----------
        metric : str, optional
            A column of the table.

        Returns
        -------
        Run
            The first of the best ones.

        Raises
        ------
        KeyError
            If the table has no such column.
        """
        if metric not in self.table.column_names:
            message = (
                f"there is no column `{metric}`; there are: {', '.join(self.table.column_names)}"
            )
            raise KeyError(message)
        values = self.table.column(metric).to_pylist()
        places = [place for place, value in enumerate(values) if value is not None]
        return self.runs[min(places, key=lambda place: values[place])]

    @cached_property
    def over_time(self) -> pa.Table | None:
        """A row per run and interval; None unless `over_time` was asked for."""
        tables = [run.over_time for run in self.runs if run.over_time is not None]
        return pa.concat_tables(tables, promote_options="default") if tables else None


class BufferComparison(Result):
    """What write buffers found on one trace; its table has a row per run, policies last.

    Columns: ``policy``, ``parameters`` (JSON), and every figure of write buffers by its name in
    ``docs/json.md``, such as ``write_hit_ratio``, ``pages_flushed``, ``erase_count`` and
    ``write_mean_us``; those of the SSD are null without one. A plot shows one of them,
    ``write_hit_ratio`` if nothing else is asked for, over the size of the buffer.

    Attributes
    ----------
    runs : list[dict]
        All figures of each run, by the names of ``thermocline buffer --json``.
    """

    _METRIC = "write_hit_ratio"
    _OVER = "pages of the buffer"

    def __init__(self, figures: Sequence[Figures]) -> None:
        super().__init__(figures)
        self.runs = list(figures)

    def __repr__(self) -> str:
        return f"<thermocline.BufferComparison: {len(self.runs)} runs>"

    def _rows(self) -> list[dict[str, Any]]:
        rows = []
        for run in self.runs:
            policy = run["policy"]
            parameters = json.dumps(policy["parameters"], sort_keys=True)
            row = {"policy": policy["name"], "parameters": parameters}
            rows.append(row | _figures("buffer figures", run))
        return rows


class Identification(Result):
    """What hot-data identifiers found on one trace; its table has a row per identifier.

    Columns: ``identifier``, ``parameters`` (JSON), and every figure of identifiers by its name in
    ``docs/json.md``, such as ``hot_ratio``, ``false_identification_rate`` and ``memory_bits``;
    ``decay_ns`` and ``decay_writes`` are null for an identifier that forgets with every access. A
    plot shows a column of :attr:`over_time`, ``hot_ratio`` if nothing else is asked for.
    """

    _METRIC = "hot_ratio"
    _OVER = "accesses that were counted"

    def __repr__(self) -> str:
        names = ", ".join(one["label"] for one in self.figures["identifiers"])
        return f"<thermocline.Identification by {names}; baseline {self.baseline}>"

    def _rows(self) -> list[dict[str, Any]]:
        rows = []
        for one in self.figures["identifiers"]:
            parameters = json.dumps(one["parameters"], sort_keys=True)
            row = {"identifier": one["label"], "parameters": parameters}
            rows.append(row | _figures("identifier figures", one))
        return rows

    @property
    def baseline(self) -> str:
        """The identifier whose word is taken for the truth."""
        name: str = self.figures["baseline"]
        return name

    @cached_property
    def over_time(self) -> pa.Table:
        """A row per identifier and interval.

        Columns: ``identifier``, ``end_writes`` (accesses counted so far), ``writes``,
        ``unique_pages``, ``hot``, ``hot_ratio``, ``false_hot``, ``false_cold``.
        """
        rows = []
        for one in self.figures["identifiers"]:
            end = 0
            intervals = zip(one["over_time"], self.figures["unique_pages"], strict=True)
            for interval, pages in intervals:
                end += interval["writes"]
                row = {"identifier": one["label"], "end_writes": end}
                row |= {"writes": interval["writes"], "unique_pages": pages}
                row |= {"hot": interval["hot"], "hot_ratio": interval["hot"] / interval["writes"]}
                row |= {name: interval[name] for name in ("false_hot", "false_cold")}
                rows.append(row)
        return pa.Table.from_pylist(rows)

    def _points(self, metric: str) -> _Points:
        rows = self.over_time.to_pylist()
        return [(row["identifier"], row["end_writes"], row[metric]) for row in rows]


class MissRatios(Result):
    """Miss-ratio curves; the table has a row per point.

    Columns: ``policy``, ``method``; per cache tier ``TIER_pages`` and ``TIER_hit_ratio``;
    ``miss_ratio``, ``rate`` (the share of pages that was looked at), ``simulated_miss_ratio``
    (null unless checked). A plot shows one of them, ``miss_ratio`` if nothing else is asked for,
    over the pages of all caches together.
    """

    _METRIC = "miss_ratio"
    _OVER = "pages of all caches"

    def __repr__(self) -> str:
        policies = ", ".join(curve["policy"] for curve in self.figures["curves"])
        return f"<thermocline.MissRatios of {policies}: {len(self)} points>"

    def _rows(self) -> list[dict[str, Any]]:
        rows = []
        for curve in self.figures["curves"]:
            for point in curve["points"]:
                row = {"policy": curve["policy"], "method": curve["method"]["name"]}
                for tier, pages, ratio in zip(
                    curve["tiers"], point["capacity_pages"], point["hit_ratios"], strict=True
                ):
                    row[f"{tier}_pages"] = pages
                    row[f"{tier}_hit_ratio"] = ratio
                row["miss_ratio"] = point["miss_ratio"]
                row["rate"] = point["rate"]
                row["simulated_miss_ratio"] = point.get("simulated_miss_ratio")
                rows.append(row)
        return _equal(rows)

    @property
    def reuse(self) -> dict[str, Any]:
        """When pages are used again: re-use distances and inter-reference times."""
        return dict(self.figures["reuse"])

    def _draw(self, ax: Axes, metric: str) -> None:
        super()._draw(ax, metric)
        ax.set_xscale("log")


class Plan(Result):
    """What to buy; the table is the front, by cost.

    Columns: ``policy``, ``ram_pages``, ``flash_pages``, ``cost``, ``miss_ratio``, ``io_time_ms``,
    ``average_response_ms``, ``cost_per_io``, ``p99_us``, ``flash_page_writes``,
    ``lifetime_years`` (null without writes to flash), ``is_chosen``. A plot shows one of them,
    ``p99_us`` if nothing else is asked for, over the cost, and marks what is chosen.
    """

    _METRIC = "p99_us"
    _OVER = "cost"

    def __repr__(self) -> str:
        chosen = self.chosen
        return (
            f"<thermocline.Plan {chosen['policy']}, ram {chosen['ram_pages']:,} pages, "
            f"flash {chosen['flash_pages']:,} pages, cost {chosen['cost']:.4f}>"
        )

    def _rows(self) -> list[dict[str, Any]]:
        rows = []
        for place, choice in enumerate(self.figures["front"]):
            row = {**choice, "policy": choice["policy"]["name"]}
            row["lifetime_years"] = choice.get("lifetime_years")
            row["is_chosen"] = place == self.figures["chosen"]
            rows.append(row)
        return _equal(rows)

    @property
    def chosen(self) -> dict[str, Any]:
        """The row of the front that is best by the objective."""
        row: dict[str, Any] = self._rows()[self.figures["chosen"]]
        return row

    def _draw(self, ax: Axes, metric: str) -> None:
        super()._draw(ax, metric)
        chosen = self.chosen
        ax.plot([chosen["cost"]], [chosen[metric]], "o", fillstyle="none", markersize=14)

    def _points(self, metric: str) -> _Points:
        return [(row["policy"], row["cost"], row[metric]) for row in self._rows()]


class SweepResult(Result):
    """The points of a sweep, a row each, in the order of the sweep.

    The columns are those of the Parquet file that it wrote (``docs/json.md``). A plot shows one of
    them, ``miss_ratio`` if nothing else is asked for, over the pages of all caches together, with
    a line per trace, policy and parameters.

    Attributes
    ----------
    output : str
        The file.
    ran_points : int
        Points that were run.
    reused_points : int
        Points that were found finished.
    dropped_results : int
        Earlier results that no point of the sweep has any more.
    """

    _METRIC = "miss_ratio"
    _OVER = "pages of all caches"

    def __init__(self, figures: Figures, table: pa.Table) -> None:
        super().__init__(figures)
        self.output: str = figures["output"]
        self.ran_points: int = figures["ran_points"]
        self.reused_points: int = figures["reused_points"]
        self.dropped_results: int = figures["dropped_results"]
        self.table = table

    def __repr__(self) -> str:
        return (
            f"<thermocline.SweepResult {self.output}: {len(self)} points, "
            f"{self.ran_points} run, {self.reused_points} found finished>"
        )

    def _points(self, metric: str) -> _Points:
        rows = self.table.to_pylist()
        many = [len({row[name] for row in rows}) > 1 for name in ("trace", "policy", "parameters")]
        points: _Points = []
        for row in rows:
            words = [row["trace"], row["policy"], row["parameters"]]
            label = " ".join(word for word, shown in zip(words, many, strict=True) if shown)
            points.append((label or row["policy"], _cache_pages(row), row[metric]))
        return points


def _equal(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give all rows the columns of all, in the order in which they come."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def _cache_pages(row: Mapping[str, Any]) -> int:
    """Sum up the pages of all cache tiers of a row, or those of a buffer."""
    sizes = (row[name] for name in row if name.endswith("_pages") and name != "footprint_pages")
    return sum(size or 0 for size in sizes)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415, it is optional
    except ImportError:
        message = "to plot, install matplotlib: `pip install matplotlib`"
        raise ImportError(message) from None
    return plt.subplots()[1]
