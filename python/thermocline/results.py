"""Results of runs: the figures of the JSON schema, as Arrow tables and as plots."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thermocline import _charts, _thermocline
from thermocline.errors import FileError

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd
    import polars as pl
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from typing_extensions import Self

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
    """Figure that is plotted by default."""

    _OVER: ClassVar[str]
    """Column over which it is plotted."""

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

    def with_parameters(self) -> pa.Table:
        """Return the table with a column per parameter, in place of their JSON.

        The column of a parameter is called ``param_NAME``. It is null for rows whose policy has no
        such parameter, and where a number is left to the policy (``auto``).

        Returns
        -------
        pyarrow.Table
            The same rows.

        Examples
        --------
        >>> import thermocline as tc
        >>> trace = tc.Trace.generate("zipf", requests=2000, pages=300, seed=3)
        >>> found = tc.compare(trace, ["lru", "s3-fifo"], {"ram": "5%"})
        >>> found.with_parameters().column("param_small_share").to_pylist()
        [None, 0.1]
        """
        table = self.table
        if "parameters" not in table.column_names:
            return table
        rows = [json.loads(text or "{}") for text in table.column("parameters").to_pylist()]
        place = table.column_names.index("parameters")
        table = table.remove_column(place)
        for name in dict.fromkeys(name for row in rows for name in row):
            column = _parameter_column([row.get(name) for row in rows])
            table = table.add_column(place, f"param_{name}", column)
            place += 1
        return table

    def to_pandas(self, *, multi_index: bool = False) -> pd.DataFrame:
        """Return a frame of pandas with a column per parameter, whose columns are Arrow's.

        Parameters
        ----------
        multi_index : bool, optional
            If True, index rows by their choices: trace and policy, the parameters and sizes
            in which rows differ.

        Returns
        -------
        pandas.DataFrame
            The rows of :meth:`with_parameters`.
        """
        try:
            import pandas as pd  # noqa: PLC0415, it is optional
        except ImportError:
            message = "pandas is not installed: `pip install pandas`"
            raise ImportError(message) from None
        table = self.with_parameters()
        frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
        return frame.set_index(self._index(table)) if multi_index else frame

    def _index(self, table: pa.Table) -> list[str]:
        """Name the columns that tell rows apart."""
        sizes = [name for name in table.column_names if _is_capacity(name)]
        parameters = [name for name in table.column_names if name.startswith("param_")]
        chosen = [*parameters, *sizes]
        differing = [name for name in chosen if len(table.column(name).unique()) > 1]
        names = [name for name in ("trace", "policy", "identifier") if name in table.column_names]
        return [*names, *differing]

    def to_polars(self) -> pl.DataFrame:
        """Return a frame of polars with a column per parameter.

        Returns
        -------
        polars.DataFrame
            The rows of :meth:`with_parameters`.
        """
        try:
            import polars as pl  # noqa: PLC0415, it is optional
        except ImportError:
            message = "polars is not installed: `pip install polars`"
            raise ImportError(message) from None
        frame = pl.from_arrow(self.with_parameters())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def save(self, path: str | PathLike[str]) -> None:
        """Save all that was found in one file, which :meth:`load` reads.

        Parameters
        ----------
        path : str or PathLike
            The file, a NumPy archive; it appears whole or not at all.

        Raises
        ------
        FileError
            If the file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> import thermocline as tc
        >>> trace = tc.Trace.generate("zipf", requests=2000, pages=300, seed=3)
        >>> run = tc.simulate(trace, "lru", {"ram": "5%"}, record="hits")
        >>> path = f"{tempfile.mkdtemp()}/run.npz"
        >>> run.save(path)
        >>> tc.Run.load(path).hits.equals(run.hits)
        True
        """
        target = Path(path)
        text = json.dumps({"kind": type(self).__name__, "figures": self.figures})
        arrays = {f"array.{name}": array for name, array in self._arrays().items()}
        partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                np.savez_compressed(file, saved=np.array(text), **arrays)
            partial.replace(target)
        except OSError as error:
            partial.unlink(missing_ok=True)
            message = f"in `{target}`: {error}"
            raise FileError(message) from None

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Load what :meth:`save` saved.

        Parameters
        ----------
        path : str or PathLike
            The file.

        Returns
        -------
        Result
            A result of the class that was saved; ``Result.load`` takes all of them.

        Raises
        ------
        FileError
            If the file cannot be read, or is of another class.
        """
        try:
            with np.load(Path(path), allow_pickle=False) as archive:
                saved = json.loads(str(archive["saved"]))
                arrays = {
                    name.removeprefix("array."): archive[name]
                    for name in archive.files
                    if name.startswith("array.")
                }
            kind, figures = saved["kind"], saved["figures"]
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            message = f"in `{path}`: not a saved result: {error}"
            raise FileError(message) from None
        classes = {one.__name__: one for one in _classes(Result)}
        found = classes.get(kind)
        if found is None or not issubclass(found, cls):
            message = f"in `{path}`: this file has a saved {kind}, not a {cls.__name__}"
            raise FileError(message)
        return found._restored(figures, arrays)  # type: ignore[return-value]

    def _arrays(self) -> dict[str, Any]:
        """Give what is to be saved besides the figures."""
        return {}

    @classmethod
    def _restored(cls, figures: Any, arrays: dict[str, Any]) -> Result:
        assert not arrays, "there are none of this class"
        return cls(figures)

    def chart(self, metric: str | None = None) -> Any:
        """Draw a figure as a chart in Vega-Lite, by Altair.

        A line per policy over the pages of all caches; maps of RAM by flash where both have
        several sizes; bars where there is one size. Axes have units, and names have the parameters
        in which rows differ.

        Parameters
        ----------
        metric : str, optional
            The column that is shown; the one that the class names if not given.

        Returns
        -------
        altair.LayerChart or altair.ConcatChart
            The chart as reports have it, which notebooks show, and ``save("chart.html")`` writes.

        Raises
        ------
        ImportError
            If Altair is not installed.
        KeyError
            If there is no such column.
        """
        metric = self._METRIC if metric is None else metric
        rows = self.table.to_pylist()
        self._check_metric(metric, self.table)
        sizes = [name for name in self.table.column_names if _is_capacity(name)]
        several = [name for name in sizes if len({row[name] for row in rows} - {None}) > 1]
        named = [
            {**row, "label": label, "y": row[metric]}
            for row, label in zip(rows, _charts.labels(rows), strict=True)
            if row[metric] is not None
        ]
        if len(sizes) == 2 and len(several) == 2:
            across, down = sizes
            cells = [
                {"label": row["label"], "across": row[across], "down": row[down], "y": row["y"]}
                for row in named
                if row[across] is not None and row[down] is not None
            ]
            return _charts.heat_maps(cells, across, down, metric)
        points = [(row["label"], _cache_pages(row), row["y"]) for row in named]
        if len({x for _, x, _ in points}) == 1:
            return _charts.bars([(label, y) for label, _, y in points], metric)
        return _charts.lines(points, self._OVER, metric)

    @staticmethod
    def _check_metric(metric: str, table: pa.Table) -> None:
        if metric not in table.column_names:
            message = f"unknown column `{metric}`; the columns are: {', '.join(table.column_names)}"
            raise KeyError(message)

    def plot(self, metric: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Plot a figure: over what, and what has a line, the class says.

        Parameters
        ----------
        metric : str, optional
            The column that is shown; the one that the class names if not given.
        ax : matplotlib.axes.Axes, optional
            Axes to plot on; a new figure if not given.

        Returns
        -------
        matplotlib.axes.Axes
            Axes of the plot.

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
        labels = list(dict.fromkeys(point[0] for point in points))
        for label, look in zip(labels, _charts.looks(labels), strict=True):
            line = sorted((x, y) for name, x, y in points if name == label and y is not None)
            ax.plot([x for x, _ in line], [y for _, y in line], label=label, markersize=4, **look)
        ax.legend()
        ax.set_xlabel(self._OVER)
        ax.set_ylabel(metric)

    def _points(self, metric: str) -> _Points:
        """Give the label, x and y of each point."""
        rows = self.table.to_pylist()
        named = zip(rows, _charts.labels(rows), strict=True)
        return [(label, _cache_pages(row), row[metric]) for row, label in named]

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
    """Results of one run; its table has one row, with the columns of a :class:`Comparison`.

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

    def _arrays(self) -> dict[str, Any]:
        return self._recorded

    @classmethod
    def _restored(cls, figures: Any, arrays: dict[str, Any]) -> Run:
        return cls(figures, arrays)

    def chart(self, metric: str | None = None) -> Any:
        """Draw a column of :attr:`tiers` as a bar for each tier, ``hit_ratio`` if none is given."""
        metric = self._METRIC if metric is None else metric
        self._check_metric(metric, self.tiers)
        rows = self.tiers.to_pylist()
        return _charts.bars([(row["name"], row[metric]) for row in rows], metric)

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
    """Results of many runs on one trace; its table has a row per run, policies last.

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
                f"unknown column `{metric}`; the columns are: {', '.join(self.table.column_names)}"
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
    """Results of write buffers on one trace; its table has a row per run, policies last.

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
    """Results of hot-data identifiers on one trace; its table has a row per identifier.

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

    def chart(self, metric: str | None = None) -> Any:
        """Draw a column of :attr:`over_time` over the accesses, ``hot_ratio`` if none is given."""
        metric = self._METRIC if metric is None else metric
        self._check_metric(metric, self.over_time)
        return _charts.lines(_drawn(self._points(metric)), self._OVER, metric)


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
        """Re-use of pages: re-use distances and inter-reference times."""
        return dict(self.figures["reuse"])

    def _draw(self, ax: Axes, metric: str) -> None:
        super()._draw(ax, metric)
        ax.set_xscale("log")

    def chart(self, metric: str | None = None) -> Any:
        """Draw the curves over the pages of all caches, ``miss_ratio`` if none is given."""
        metric = self._METRIC if metric is None else metric
        self._check_metric(metric, self.table)
        points = _drawn(self._points(metric))
        return _charts.lines(points, self._OVER, metric, is_log=True)


class Plan(Result):
    """Plan of purchases; the table is the front, by cost.

    Columns: ``policy``, ``ram_pages``, ``flash_pages``, ``cost``, ``miss_ratio``, ``io_time_ms``,
    ``average_response_ms``, ``cost_per_io``, ``p99_us``, ``flash_page_writes``,
    ``lifetime_years`` (null without writes to flash), ``outstanding_mean``, ``is_saturated``,
    ``is_chosen``. A plot shows one of them, ``p99_us`` if nothing else is asked for, over the cost,
    and marks what is chosen.
    """

    _METRIC = "p99_us"
    _OVER = "cost"

    def __repr__(self) -> str:
        chosen = self.chosen
        return (
            f"<thermocline.Plan {chosen['policy']}, ram {chosen['ram_pages']:,} pages, "
            f"flash {chosen['flash_pages']:,} pages, cost {chosen['cost']:.4f} "
            f"{self.figures['currency']}>"
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
    def struck_out(self) -> list[dict[str, Any]]:
        """Tempting choices that are not recommended: rows as of the front, with a ``reason``."""
        return [
            {**choice, "policy": choice["policy"]["name"]} for choice in self.figures["struck_out"]
        ]

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

    def chart(self, metric: str | None = None) -> Any:
        """Draw a column of the front over the cost, ``p99_us`` if none is given."""
        metric = self._METRIC if metric is None else metric
        self._check_metric(metric, self.table)
        return _charts.lines(_drawn(self._points(metric)), self._OVER, metric)


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

    def _arrays(self) -> dict[str, Any]:
        file = io.BytesIO()
        pq.write_table(self.table, file)
        return {"table": np.frombuffer(file.getvalue(), np.uint8)}

    @classmethod
    def _restored(cls, figures: Any, arrays: dict[str, Any]) -> SweepResult:
        return cls(figures, pq.read_table(io.BytesIO(arrays["table"].tobytes())))


def _classes(of: type[Result]) -> list[type[Result]]:
    """Give a class and all below it."""
    return [of, *(one for below in of.__subclasses__() for one in _classes(below))]


def _drawn(points: _Points) -> list[tuple[str, float, float]]:
    return [(label, x, y) for label, x, y in points if y is not None]


def _parameter_column(values: list[Any]) -> pa.ChunkedArray:
    """Give the values of a parameter in all rows; one that is left to the policy is null."""
    values = [None if value == "auto" else value for value in values]
    if any(isinstance(value, float) for value in values):
        values = [None if value is None else float(value) for value in values]
    return pa.chunked_array([pa.array(values)])


def _is_capacity(name: str) -> bool:
    """Tell whether a column is the size of a cache tier, or of a buffer."""
    return name.endswith("_pages") and name.count("_") == 1 and name != "footprint_pages"


def _equal(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give all rows the columns of all, in the order in which they come."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def _cache_pages(row: Mapping[str, Any]) -> int:
    """Sum up the pages of all cache tiers of a row, or those of a buffer."""
    return sum(row[name] or 0 for name in row if _is_capacity(name))


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415, it is optional
    except ImportError:
        message = "plots need matplotlib: `pip install matplotlib`"
        raise ImportError(message) from None
    return plt.subplots()[1]
