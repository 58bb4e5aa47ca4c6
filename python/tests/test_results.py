"""Results as frames, files and charts."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import thermocline as tc


@pytest.fixture(scope="module")
def compared() -> tc.Comparison:
    trace = tc.Trace.generate("zipf", requests=4_000, pages=500, seed=2)
    return tc.compare(
        trace, ["hat", "lru", "s3-fifo", "mq"], {"ram": ["2%", "4%"], "flash": ["2x", "4x"]}
    )


def test_parameters_are_columns(compared: tc.Comparison) -> None:
    table = compared.with_parameters()
    assert "parameters" not in table.column_names
    assert table.num_rows == len(compared.runs)
    for row, run in zip(table.to_pylist(), compared.runs, strict=True):
        for name, value in row.items():
            if name.startswith("param_"):
                own = run.parameters.get(name.removeprefix("param_"))
                assert value == (None if own == "auto" else own), name
        assert all(f"param_{name}" in row for name in run.parameters)
    assert "auto" in [value for run in compared.runs for value in run.parameters.values()]
    assert compared.to_pandas().columns.tolist() == table.column_names
    assert compared.to_polars().columns == table.column_names
    assert json.loads(compared.table.column("parameters")[0].as_py()) == compared.runs[0].parameters


def test_rows_are_indexed_by_what_was_chosen(compared: tc.Comparison) -> None:
    frame = compared.to_pandas(multi_index=True)
    assert frame.index.names[0] == "policy"
    assert frame.index.names[-2:] == ["ram_pages", "flash_pages"]
    assert frame.index.is_unique
    run = compared.runs[-1]
    pages = run.tiers.column("capacity_pages").to_pylist()
    chosen = frame.xs((run.policy, *pages[:2]), level=("policy", "ram_pages", "flash_pages"))
    assert chosen["io_time_ms"].tolist() == [run.io_time_ms]


def results(folder: Path) -> list[tc.Result]:
    """Give a result of every class."""
    trace = tc.Trace.generate("zipf", requests=3_000, pages=500, seed=3)
    trace.save(folder / "t.parquet")
    spec = {
        "policies": ["lru", "hat"],
        "trace": [{"path": folder / "t.parquet"}],
        "tier": [{"name": "ram", "sizes": ["1%", "2%"]}, {"name": "flash", "sizes": ["2x", "4x"]}],
        "parameters": {"hat.nonhot_ratio": [0.1, 0.2]},
    }
    prices = {"ram": 4, "flash": 0.4, "disk": 0.02}
    record = ("hits", "actions", "evictions")
    return [
        tc.simulate(trace, "arc", {"ram": 20}, record=record, over_time=4),
        tc.compare(trace, ["lru", "arc"], {"ram": [10, 20]}),
        tc.mrc(trace, sizes=["5%", "10%"]),
        tc.plan(trace, 0.01, prices, policies="lru", objective="io-time", closed_loop=4),
        tc.buffer(trace, ["lru", "fab"], ["128p"]),
        tc.hot(trace, "mbf"),
        tc.sweep(spec, folder / "found.parquet"),
    ]


def test_every_result_is_saved_and_loaded(tmp_path: Path) -> None:
    for result in results(tmp_path):
        path = tmp_path / f"{type(result).__name__}.npz"
        result.save(path)
        for again in (type(result).load(path), tc.Result.load(path)):
            assert type(again) is type(result)
            assert again.figures == result.figures
            assert again.table.equals(result.table)
            if isinstance(again, tc.Run) and isinstance(result, tc.Run):
                assert again.hits == result.hits
                assert again.actions == result.actions
                assert again.evictions == result.evictions
                assert again.over_time == result.over_time
    assert not list(tmp_path.glob("*.partial"))
    with pytest.raises(tc.FileError, match="this file has a saved Run, not a Comparison"):
        tc.Comparison.load(tmp_path / "Run.npz")
    (tmp_path / "bad.npz").write_text("nothing")
    np.savez(tmp_path / "other.npz", a=[1])
    for name in ("absent.npz", "bad.npz", "other.npz"):
        with pytest.raises(tc.FileError, match="not a saved result"):
            tc.Run.load(tmp_path / name)
    with pytest.raises(tc.FileError, match="nowhere"):
        compared_to_nothing().save(tmp_path / "nowhere" / "x.npz")


def compared_to_nothing() -> tc.Run:
    return tc.simulate(tc.Trace.from_arrays([1, 2]), "lru", {"ram": 1})


def encoded(chart: Any) -> dict[str, Any]:
    """Give the specification of a chart, which Altair checks against its schema."""
    found: dict[str, Any] = chart.to_dict()
    return found


def data(chart: dict[str, Any]) -> list[dict[str, Any]]:
    """Give all rows of the first marks of a chart, or of each chart that stands beside others."""
    if "concat" in chart:
        parts = [{**part, "datasets": chart["datasets"]} for part in chart["concat"]]
        return [row for part in parts for row in data(part)]
    view = chart["vconcat"][0] if "vconcat" in chart else chart
    # Altair moves what all layers have to the view.
    name = view["layer"][0].get("data", view.get("data"))["name"]
    values: list[dict[str, Any]] = chart["datasets"][name]
    return values


def test_every_result_has_a_chart(tmp_path: Path) -> None:
    for result in results(tmp_path):
        chart = encoded(result.chart())
        assert data(chart), type(result)
        assert all("{" not in row["name"] for row in data(chart) if "name" in row)
        with pytest.raises(KeyError, match="colour"):
            result.chart("colour")


def test_sizes_of_both_tiers_make_heat_maps(compared: tc.Comparison) -> None:
    chart = encoded(compared.chart("io_time_ms"))
    first = chart["concat"][0]["layer"][0]
    assert first["mark"]["type"] == "rect"
    assert first["encoding"]["x"]["title"] == "ram [pages]"
    domains = {
        tuple(map_["layer"][0]["encoding"]["color"]["scale"]["domain"]) for map_ in chart["concat"]
    }
    rows = compared.table.to_pylist()
    times = sorted(row["io_time_ms"] for row in rows)
    assert domains == {(times[0], times[-1])}, "one scale of colours for all"
    assert sorted(row["value"] for row in data(chart)) == times


def test_lines_and_bars_have_units_and_names(tmp_path: Path) -> None:
    trace = tc.Trace.generate("zipf", requests=2_000, pages=300, seed=3)
    compared = tc.compare(trace, ["lru", "arc"], {"ram": [10, 20]})
    lines = encoded(compared.chart())
    assert lines["layer"][0]["mark"]["type"] == "line"
    assert lines["layer"][0]["encoding"]["x"]["title"] == "pages of all caches"
    ratios = [
        (row["policy"], row["ram_pages"], row["miss_ratio"]) for row in compared.table.to_pylist()
    ]
    points = [(row["name"], row["x"], row["y"]) for row in data(lines)]
    assert sorted(points) == sorted(ratios)
    bars = encoded(tc.compare(trace, ["lru", "arc"], {"ram": 10}).chart("average_response_ms"))
    assert bars["layer"][0]["mark"]["type"] == "bar"
    assert bars["layer"][0]["encoding"]["x"]["title"] == "average response [ms]"
    swept = next(one for one in results(tmp_path) if isinstance(one, tc.SweepResult))
    labels = {"lru", "hat nonhot_ratio=0.1", "hat nonhot_ratio=0.2"}
    drawn = encoded(swept.chart())
    titles = {view["title"].partition(":")[0] for view in drawn.get("concat", [])}
    names = {row["name"] for row in data(drawn) if "name" in row}
    assert (names or titles) == labels
    plotted = swept.plot()
    legend = plotted.get_legend()
    assert legend is not None
    assert {text.get_text() for text in legend.get_texts()} == labels


def test_a_policy_looks_the_same_in_every_chart() -> None:
    trace = tc.Trace.generate("zipf", requests=2_000, pages=300, seed=3)
    colours = set()
    for policies in (["lru", "arc"], ["s3-fifo", "lfu", "lru"]):
        compared = tc.compare(trace, policies, {"ram": [10, 20]})
        scale = encoded(compared.chart())["layer"][0]["encoding"]["color"]["scale"]
        colours.add(scale["range"][scale["domain"].index("lru")])
        lines = compared.plot().get_lines()
        colours |= {line.get_color() for line in lines if line.get_label() == "lru"}
    assert len(colours) == 1, colours


def test_charts_need_altair(compared: tc.Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(ImportError, match=r"thermocline\[chart\]"):
        compared.chart()


ONE_TIER = [one.name for one in tc.policies() if (one.tiers or "").startswith("one")]


def test_a_policy_of_one_tier_beside_flash_is_the_same_in_comparisons_and_sweeps(
    tmp_path: Path,
) -> None:
    trace = tc.Trace.generate("zipf", requests=2_000, pages=300, seed=3)
    trace.save(tmp_path / "t.parquet")
    tiers: dict[str, Any] = {"ram": ["4%", "8%"], "flash": ["2x", "4x"]}
    prices = {"ram": 4.0, "flash": 0.4, "disk": 0.02}
    compared = tc.compare(trace, ONE_TIER, tiers, prices=prices)
    spec = {
        "policies": ONE_TIER,
        "trace": [{"path": tmp_path / "t.parquet"}],
        "tier": [{"name": name, "sizes": sizes} for name, sizes in tiers.items()],
        "price": [f"{tier}={price}" for tier, price in prices.items()],
    }
    swept = tc.sweep(spec, tmp_path / "found.parquet")

    def by_place(result: tc.Result) -> dict[tuple[Any, ...], dict[str, Any]]:
        rows = result.table.to_pylist()
        place = ("policy", "ram_pages", "flash_pages")
        return {tuple(row[name] for name in place): row for row in rows}

    ours, theirs = by_place(compared), by_place(swept)
    assert len(ONE_TIER) > 25
    assert list(ours) != []
    assert set(ours) == set(theirs)
    assert len(ours) == 4 * len(ONE_TIER)
    same = set(compared.table.column_names) & set(swept.table.column_names)
    same -= {"parameters", "replay_seconds", "accesses_per_second"}
    assert {"flash_pages", "flash_hits", "cost_per_io", "io_time_ms", "ram_page_writes"} <= same
    for place, row in ours.items():
        assert {name: row[name] for name in same} == {name: theirs[place][name] for name in same}, (
            place
        )


class Mine(tc.EvictionPolicy):
    """First in, first out."""

    def __init__(self, _setup: tc.CacheSetup) -> None:
        self.order: list[int] = []

    def hit(self, page: int, write: bool) -> None:
        pass

    def miss(self, page: int, write: bool) -> None:  # noqa: ARG002
        self.order.append(page)

    def evict(self, page: int, write: bool) -> int:  # noqa: ARG002
        return self.order.pop(0)


def test_a_plan_takes_policies_of_python(tmp_path: Path) -> None:
    trace = tc.Trace.generate("zipf", requests=2_000, pages=300, seed=3)
    prices = {"ram": 4, "flash": 0.4, "disk": 0.02}
    options: dict[str, Any] = {"objective": "io-time", "closed_loop": 4}
    mine = tc.plan(trace, 0.01, prices, policies=Mine, **options)
    theirs = tc.plan(trace, 0.01, prices, policies="fifo", **options)
    assert mine.chosen["policy"] == "Mine"
    assert mine.chosen["io_time_ms"] == theirs.chosen["io_time_ms"]
    both = tc.plan(trace, 0.01, prices, policies=[Mine, "arc"], **options)
    assert {row["policy"] for row in both.table.to_pylist()} <= {"Mine", "arc"}
    with pytest.raises(tc.ConfigurationError, match=r"^output: an engine"):
        tc.plan(trace, 0.01, prices, policies=Mine, output=tmp_path / "engine.toml", **options)


def test_the_bundled_trace_comes_with_the_package() -> None:
    bundled = tc.datasets.pgbench()
    opened = tc.Trace.open("testdata/pgbench/pgbench.csv.zst", page_size="8KiB")
    assert bundled.to_arrow().equals(opened.to_arrow())
    assert bundled.page_size_bytes == 8192
    assert tc.datasets.pgbench() is bundled


def test_parameters_have_typed_ranges() -> None:
    entries = [*tc.policies(), *tc.identifiers(), *tc.buffers()]
    kinds = set()
    for parameter in (one for entry in entries for one in entry.parameters):
        kinds.add(parameter.kind)
        is_number = parameter.kind in {"integer", "real"}
        assert (parameter.min is not None) == (parameter.max is not None) == is_number
        assert (parameter.words is not None) == (parameter.kind in {"choice", "words"})
        if is_number and parameter.default != "auto":
            assert parameter.min is not None
            assert parameter.max is not None
            assert parameter.min <= float(parameter.default) <= parameter.max
        if parameter.words is not None:
            defaults = parameter.default.split("+" if parameter.kind == "words" else None)
            assert set(defaults) <= set(parameter.words)
    assert kinds == {"integer", "real", "switch", "choice", "words"}
