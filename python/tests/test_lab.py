"""Runs, comparisons, curves, plans and buffers, against the command line and each other."""

import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, get_args, get_type_hints

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import thermocline as tc
from thermocline import _thermocline

# Figures that differ from run to run.
SPEED = ("replay_seconds", "accesses_per_second")


class CommandLine(Protocol):
    """Runs a command and gives its JSON."""

    def __call__(self, *words: str) -> Any: ...


@pytest.fixture(scope="module")
def command_line(program: str) -> CommandLine:
    def run(*words: str) -> Any:
        command = [program, *words, "--json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    return run


def without_speed(figures: Any) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if name not in SPEED}


@pytest.fixture(scope="module")
def saved(zipf: tc.Trace, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("traces") / "zipf.parquet"
    zipf.save(path)
    return str(path)


def test_a_run_is_that_of_the_command_line(saved: str, command_line: CommandLine) -> None:
    run = tc.simulate(
        saved,
        "hat",
        {"ram": "5%", "flash": "4x"},
        parameters={"nonhot_ratio": 0.2},
        costs={"flash": (0.09, 0.03)},
        prices={"ram": 4, "flash": 0.5},
        warm_up="20%",
        over_time=5,
        write_miss="allocate",
        check=True,
    )
    words = "simulate TRACE --policy hat --tier ram=5% --tier flash=4x --param nonhot_ratio=0.2"
    words += " --cost flash=0.09/0.03 --price ram=4 --price flash=0.5 --warm-up 20% --over-time 5"
    words += " --write-miss allocate --check"
    expected = command_line(*words.replace("TRACE", saved).split())
    assert without_speed(run.figures) == without_speed(expected)
    assert run.policy == "hat"
    assert run.parameters["nonhot_ratio"] == 0.2
    assert run.over_time is not None
    assert len(run.over_time) == 5
    assert run.tiers.column("name").to_pylist() == ["ram", "flash", "disk"]
    assert run.hit_ratio == pytest.approx(1 - run.miss_ratio)
    assert repr(run).startswith("<thermocline.Run hat, ram 4")


def test_time_can_be_simulated(zipf: tc.Trace) -> None:
    run = tc.simulate(
        zipf,
        "face-gsc",
        {"ram": 50, "flash": 200},
        timing="events",
        closed_loop=4,
        models={"disk": "server:2"},
    )
    row = run.table.to_pylist()[0]
    assert 0 < row["read_mean_us"] <= row["read_p99_us"]
    assert row["duration_s"] > 0
    with pytest.raises(
        tc.ConfigurationError, match=r"^closed_loop: it belongs to the timing `events`"
    ):
        tc.simulate(zipf, "lru", {"ram": 50}, closed_loop=4)


def test_a_comparison_has_a_row_per_run(
    saved: str, zipf: tc.Trace, command_line: CommandLine
) -> None:
    found = tc.compare(zipf, ["lru", "face-gsc"], {"ram": [20, "4%"], "flash": "4x"})
    words = "compare TRACE --policy lru,face-gsc --tier ram=20p,4% --tier flash=4x"
    expected = command_line(*words.replace("TRACE", saved).split())
    for run, other in zip(found.runs, expected, strict=True):
        ours, theirs = without_speed(run.figures), without_speed(other)
        assert ours.pop("trace").keys() == theirs.pop("trace").keys()
        assert ours == theirs
    table = found.table
    assert table.column("policy").to_pylist() == ["lru", "face-gsc"] * 2
    assert table.column("miss_ratio").to_pylist() == [run.miss_ratio for run in found.runs]
    assert found.best().io_time_ms == min(run.io_time_ms for run in found.runs)
    alone = tc.compare(zipf, "arc", {"ram": 20})
    assert len(alone) == 1
    assert len(tc.compare(zipf, "all", {"ram": 20})) > 20


def test_frames_share_the_memory_of_the_table(zipf: tc.Trace) -> None:
    found = tc.compare(zipf, ["lru", "arc"], {"ram": [10, 20, 30]})
    address = found.table.column("ram_hits").chunk(0).buffers()[1].address
    frame = found.to_pandas()
    column = pa.chunked_array(frame["ram_hits"].array.__arrow_array__())
    assert column.chunk(0).buffers()[1].address == address
    again = pa.table(found)
    assert again.column("ram_hits").chunk(0).buffers()[1].address == address
    polars = pl.DataFrame(found)
    assert polars.drop("parameters").equals(
        found.to_polars().drop(pl.selectors.starts_with("param_"))
    )
    assert polars["ram_hits"].to_arrow().buffers()[1].address == address
    assert frame["policy"].tolist() == polars["policy"].to_list()
    assert "<table" in (found._repr_html_() or "")


def test_what_is_not_installed_is_named(zipf: tc.Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tc.simulate(zipf, "lru", {"ram": 10})
    uses: list[tuple[str, Callable[[], object]]] = [
        ("pandas", found.to_pandas),
        ("polars", found.to_polars),
        ("matplotlib.pyplot", found.plot),
    ]
    for module, use in uses:
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=f"`pip install {module.split('.')[0]}`"):
            use()
    assert found._repr_html_() is None, "a notebook shows its text"


def test_curves_are_those_of_the_command_line(
    saved: str, zipf: tc.Trace, command_line: CommandLine
) -> None:
    found = tc.mrc(zipf, ["lru", "s3-fifo"], sizes=["5%", "20%"], check=True)
    words = "mrc TRACE --policy lru,s3-fifo --sizes 5%,20% --check".replace("TRACE", saved)
    expected = command_line(*words.split())
    assert found.figures["curves"] == expected["curves"]
    assert found.reuse == expected["reuse"]
    rows = found.table.to_pylist()
    assert [row["method"] for row in rows[:2]] == ["exact"] * 2
    for row in rows:
        alone = tc.simulate(zipf, row["policy"], {"ram": row["ram_pages"]})
        assert row["simulated_miss_ratio"] == pytest.approx(alone.miss_ratio)
    sampled = tc.mrc(zipf, shards=0.5, seed=3)
    assert {row["rate"] for row in sampled.table.to_pylist()} == {0.5}
    grid = tc.mrc(zipf, "face-gsc", sizes=["5%"], flash_sizes=["2x", "4x"], rate=1)
    assert grid.table.column("flash_pages").to_pylist() == sorted(
        grid.table.column("flash_pages").to_pylist()
    )
    with pytest.raises(tc.ConfigurationError, match="above 0 and at most 1"):
        tc.mrc(zipf, shards=2.0)


def test_a_plan_chooses_and_writes_the_engines_configuration(
    zipf: tc.Trace, tmp_path: Path
) -> None:
    prices = {"ram": 4, "flash": 0.4, "disk": 0.02}
    found = tc.plan(
        zipf,
        0.005,
        prices,
        policies=["lru", "face-gsc"],
        objective="io-time",
        closed_loop=8,
        output=tmp_path / "cache.toml",
    )
    assert found.table.column("is_chosen").to_pylist().count(True) == 1
    assert found.chosen["cost"] <= 0.005
    assert f'name = "{found.chosen["policy"]}"' in (tmp_path / "cache.toml").read_text()
    lasting = [row["lifetime_years"] for row in found.table.to_pylist()]
    assert all(years is None or years >= 5 for years in lasting)
    assert found.struck_out
    assert all("sooner than 5 years" in row["reason"] for row in found.struck_out)
    with pytest.raises(tc.ConfigurationError, match=r"^currency: `US dollars` is invalid"):
        tc.plan(zipf, 1, prices, currency="US dollars", closed_loop=8)
    with pytest.raises(tc.ConfigurationError, match="that of `disk` is missing"):
        tc.plan(zipf, 1, {"ram": 1, "flash": 1}, closed_loop=8)
    with pytest.raises(tc.ConfigurationError, match=r"^budget: NaN is invalid: expected a number"):
        tc.plan(zipf, math.nan, prices, closed_loop=8)


def test_buffers_are_those_of_the_command_line(
    zipf: tc.Trace, saved: str, command_line: CommandLine
) -> None:
    found = tc.buffer(
        zipf,
        ["lru", "bplru"],
        ["128p", 256],
        ssd="ssdsim",
        ssd_size="fit",
        precondition={"fill": 1},
        closed_loop=4,
        check=True,
    )
    words = "buffer TRACE --policy lru,bplru --size 128p,256p --ssd ssdsim --ssd-size fit"
    words += " --precondition fill=1 --closed-loop 4 --check"
    expected = command_line(*words.replace("TRACE", saved).split())
    assert [run["erase_count"] for run in found.runs] == [run["erase_count"] for run in expected]
    assert found.table.column("read_mean_us").to_pylist() == [
        run["response_us"]["read"]["mean"] for run in expected
    ]
    alone = tc.buffer(zipf, "all", "128p")
    assert len(alone) == len(tc.buffers())
    assert alone.table.column("erase_count").null_count == len(alone)


@pytest.mark.parametrize("clients", [1, 4])
def test_identifiers_are_those_of_the_command_line(
    zipf: tc.Trace, saved: str, clients: int, command_line: CommandLine
) -> None:
    told: list[tuple[int, int, int]] = []
    found = tc.hot(
        # Whose an access is makes no difference to an identifier.
        zipf.split(clients),
        ["mbf", "mhf", "dam"],
        baseline="dam",
        count="reads,writes",
        interval=3000,
        parameters={"mbf.filters": 8},
        progress=lambda *where: told.append(where),
    )
    words = "hot TRACE --identifier mbf,mhf,dam --baseline dam --count reads,writes"
    words += " --interval 3000 --param mbf.filters=8"
    expected = command_line(*words.replace("TRACE", saved).split())
    clocks = {"check_ns", "decay_ns"}
    for ours, theirs in zip(found.figures["identifiers"], expected["identifiers"], strict=True):
        assert ours.keys() == theirs.keys()
        assert all(ours[name] == theirs[name] for name in ours.keys() - clocks)
    assert found.baseline == "dam"
    table = found.table
    assert table.column("identifier").to_pylist() == ["mbf", "mhf", "dam"]
    assert json.loads(table.column("parameters")[0].as_py())["filters"] == 8
    assert table.column("false_identification_rate")[2].as_py() == 0
    assert told[-1] == (3, 3, 3 * len(zipf))
    rows = found.over_time.to_pylist()
    assert [row["end_writes"] for row in rows] == [3000, 6000, 9000, 10_000] * 3
    assert sum(row["hot"] for row in rows[:4]) == table.column("hot")[0].as_py()
    lines = found.plot("false_hot").get_lines()
    assert [line.get_label() for line in lines] == ["mbf", "mhf", "dam"]
    assert len(tc.hot(zipf, "all")) == len(tc.identifiers())
    reads = tc.Trace.from_arrays([1, 2])
    for arguments, message in [
        ((zipf, "nope"), "unknown identifier `nope`"),
        ((zipf, []), "a list of names is empty"),
        ((reads, "mbf"), "has no writes to identify hot pages by"),
    ]:
        with pytest.raises(tc.ConfigurationError, match=message):
            tc.hot(*arguments)
    with pytest.raises(tc.ConfigurationError, match="write reads, writes or reads,writes"):
        tc.hot(zipf, "mbf", count="both")  # type: ignore[arg-type]


def test_clients_share_tiers_as_on_the_command_line(
    zipf: tc.Trace, saved: str, command_line: CommandLine
) -> None:
    tiers: dict[str, tc.Size] = {"l1": 20, "l2": "10%"}
    shared = zipf.split(4)
    run = tc.simulate(shared, "lru-n-inclusive", tiers, check=True)
    words = "simulate TRACE --clients 4 --policy lru-n-inclusive --tier l1=20p --tier l2=10%"
    expected = command_line(*words.replace("TRACE", saved).split())
    assert run.figures["clients"] == expected["clients"]
    assert run.clients is not None
    assert run.clients.column("accesses").to_pylist() == [2500] * 4
    hits = run.clients.column("l1_hits").to_pylist()
    assert sum(hits) == run.tiers.column("hits")[0].as_py()
    assert tc.simulate(zipf, "lru-n-inclusive", tiers).clients is None
    found = tc.compare(shared, ["demote", "lru-n-inclusive"], tiers)
    assert found.runs[1].figures["clients"] == expected["clients"]
    with pytest.raises(tc.ConfigurationError, match="`ulc`"):
        tc.simulate(shared, "ulc", tiers)
    for find in (
        lambda: tc.mrc(shared),
        lambda: tc.buffer(shared, "lru", "64p"),
        lambda: tc.plan(shared, 1, {"ram": 1, "flash": 1, "disk": 1}),
    ):
        with pytest.raises(tc.ConfigurationError, match="has 4: pass the trace before"):
            find()


def test_sizes_may_be_of_numpy(zipf: tc.Trace) -> None:
    sizes = np.array([10, 20])
    found = tc.compare(zipf, "lru", {"ram": sizes})  # type: ignore[dict-item]
    assert found.table.column("ram_pages").to_pylist() == [10, 20]
    alone = tc.simulate(zipf, "lru", {"ram": sizes[0]})
    assert alone.miss_ratio == found.runs[0].miss_ratio


def test_mistakes_are_named(zipf: tc.Trace) -> None:
    for arguments, message in [
        ((zipf, "nope", {"ram": 10}), "unknown policy `nope`; there are: "),
        ((zipf, "lru", {"ram": "10 apples"}), r"^tiers\[\"ram\"\]: .*64MiB"),
        ((zipf, "lru", {"sand": 10}), r"^tiers\[\"sand\"\]: unknown tier `sand`"),
        ((zipf, "hat", {"ram": 10}), "`hat` runs on"),
        ((zipf, "lru", {"ram": 0}), "at least one page"),
        ((zipf, "lru", {"ram": [1, 2]}), "one size per tier|several are compared"),
        ((zipf, "lru", {"ram": 1.5}), "invalid size 1.5"),
        ((zipf, "lru", {"ram": b"10p"}), "invalid size b'10p'"),
        ((zipf, "lru", {"ram": -5}), "invalid size -5"),
        ((zipf, "lru", "ram=10"), "tiers='ram=10': expected a mapping"),
        ((zipf, "lru", [("ram", 10)]), "expected a mapping"),
        ((zipf, "lru", {}), "tiers: give at least one"),
        ((zipf, 7, {"ram": 1}), "invalid policy 7"),
        ((zipf, [], {"ram": 1}), "invalid policy"),
    ]:
        with pytest.raises(tc.ConfigurationError, match=message):
            tc.simulate(*arguments)  # type: ignore[arg-type]
    for options, message in [
        (
            {"parameters": {"colour": 1}},
            r"^parameters\[\"colour\"\]: nothing in this run has parameters",
        ),
        ({"parameters": {"writes": [1]}}, r"^parameters\[\"writes\"\]=\[1\]: expected text"),
        ({"devices": {"ram": "floppy"}}, r"^devices\[\"ram\"\]: unknown device `floppy`"),
        ({"devices": {"flash": "dram"}}, r"^devices\[\"flash\"\]: no tier `flash`; .*ram, disk"),
        ({"latencies": {"disk": -1}}, r"^latencies\[\"disk\"\]: .*at least 0"),
        ({"latencies": {"disk": "far"}}, r"^latencies\[\"disk\"\]='far': expected a number"),
        ({"prices": {"ram": True}}, r"^prices\[\"ram\"\]=True: expected a number"),
        ({"models": {"disk": "floppy"}, "timing": "events"}, r"^models\[\"disk\"\]: expected"),
        ({"models": {"disk": "server:0"}}, r"^models\[\"disk\"\]: .*server:8"),
        ({"timing": "event"}, r"^timing='event': expected \"cost\" or \"events\""),
        ({"closed_loop": 0}, "^closed_loop=0: expected a whole number from 1"),
        ({"warm_up": "most"}, "^warm_up='most': expected accesses"),
        ({"over_time": 1.5}, "^over_time=1.5: expected a whole number"),
        ({"check": "yes"}, "^check='yes': expected True or False"),
        ({"admit": "guess"}, "^admit: unknown identifier `guess`"),
    ]:
        with pytest.raises(tc.ConfigurationError, match=message):
            tc.simulate(zipf, "lru", {"ram": 10}, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unknown option colour; the options are: devices"):
        tc.simulate(zipf, "lru", {"ram": 10}, colour=1)  # type: ignore[call-arg]
    for cost in (0.5, (1, 2, 3), "ab"):
        with pytest.raises(tc.ConfigurationError, match="is not a cost of `ram`: expected"):
            tc.simulate(zipf, "lru", {"ram": 10}, costs={"ram": cost})  # type: ignore[dict-item]
    with pytest.raises(tc.ConfigurationError, match="parameters='a=1': expected a mapping"):
        tc.simulate(zipf, "lru", {"ram": 10}, parameters="a=1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"type ndarray: give a Trace.*from_arrays"):
        tc.simulate(np.arange(3), "lru", {"ram": 10})  # type: ignore[arg-type]
    with pytest.raises(tc.ConfigurationError, match="a list of names is empty"):
        tc.compare(zipf, [], {"ram": 10})
    with pytest.raises(tc.TraceError, match=r"no-such\.csv"):
        tc.simulate("no-such.csv", "lru", {"ram": 10})


def test_errors_are_a_family_and_travel(tmp_path: Path) -> None:
    families = [
        tc.ClusterError,
        tc.ConfigurationError,
        tc.DeviceError,
        tc.FileError,
        tc.LedgerError,
        tc.TraceError,
    ]
    for family in families:
        assert issubclass(family, tc.ThermoclineError)
        again = pickle.loads(pickle.dumps(family("what and where")))
        assert type(again) is family
        assert str(again) == "what and where"
    with pytest.raises(tc.FileError, match=r"no\.toml"):
        tc.devices(tmp_path / "no.toml")
    tiny = tc.Trace.generate(requests=10, pages=5, page_size=512)
    with pytest.raises(tc.ConfigurationError, match="multiple of the drive's pages"):
        tc.buffer(tiny, "lru", "4p", ssd="ssdsim", ssd_size="fit")


def test_plots_have_lines_and_labels(zipf: tc.Trace) -> None:
    found = tc.compare(zipf, ["lru", "arc"], {"ram": [10, 50]}, over_time=4)
    lines = found.plot("io_time_ms").get_lines()
    assert [line.get_label() for line in lines] == ["lru", "arc"]
    assert np.asarray(lines[0].get_xdata()).tolist() == [10, 50]
    assert np.asarray(lines[0].get_ydata()).tolist() == [
        found.runs[0].io_time_ms,
        found.runs[2].io_time_ms,
    ]
    assert found.over_time is not None
    assert len(found.over_time) == 16
    assert found.runs[0].plot().get_xlabel() == "accesses"
    assert len(tc.simulate(zipf, "lru", {"ram": 10}).plot().patches) == 2
    bars = tc.simulate(zipf, "lru", {"ram": 10}).plot("page_reads")
    assert bars.get_ylabel() == "page_reads"
    with pytest.raises(KeyError, match="colour"):
        found.plot("colour")
    with pytest.raises(KeyError, match="unknown column `colour`; the columns are: policy, "):
        found.best("colour")
    assert tc.mrc(zipf, sizes=[10, 100]).plot().get_xscale() == "log"
    assert tc.buffer(zipf, "lru", [64, 128]).plot().get_ylabel() == "write_hit_ratio"
    prices = {"ram": 4, "flash": 0.4, "disk": 0.02}
    plan = tc.plan(zipf, 0.005, prices, policies="lru", objective="io-time", closed_loop=8)
    assert plan.plot().get_xlabel() == "cost"


def test_progress_is_told(zipf: tc.Trace) -> None:
    told: list[tuple[int, int, int]] = []
    tc.compare(zipf, ["lru", "arc"], {"ram": [10, 50]}, progress=lambda *where: told.append(where))
    assert told[-1] == (4, 4, 4 * len(zipf))
    with pytest.raises(ZeroDivisionError):
        tc.compare(zipf, "lru", {"ram": 10}, progress=lambda *_: 1 // 0)


def test_a_bar_is_shown_if_asked_for(zipf: tc.Trace, capsys: pytest.CaptureFixture[str]) -> None:
    tc.compare(zipf, ["lru", "arc"], {"ram": 10}, progress=True)
    assert "2/2" in capsys.readouterr().err
    tc.compare(zipf, ["lru", "arc"], {"ram": 10})
    assert capsys.readouterr().err == ""


def test_options_of_all_tiers_are_those_of_the_lab() -> None:
    # The package imports these two for type checkers only.
    names = {"Mapping": Mapping, "PathLike": PathLike}
    types = get_type_hints(tc.HierarchyOptions, localns=names)
    for option in json.loads(_thermocline.catalogue("options", None)):
        name = option["name"]
        assert name in types, f"{name}: {option['summary']}"
        if option["words"]:
            assert list(get_args(types[name])) == option["words"]


@pytest.mark.parametrize("timing", [{}, {"timing": "events", "closed_loop": 4}])
def test_what_happened_to_each_access_is_recorded(zipf: tc.Trace, timing: dict[str, Any]) -> None:
    tiers = {"ram": 40, "flash": 160}
    run = tc.simulate(zipf, "face-gsc", tiers, record=("hits", "actions", "evictions"), **timing)
    assert run.hits is not None
    assert run.actions is not None
    assert run.evictions is not None
    found = run.hits.column("found").to_pylist()
    for tier in run.figures["tiers"]:
        assert found.count(tier["name"]) == tier["hits"]
    assert sum(run.hits.column("hit").to_pylist()) == len(zipf) - found.count("disk")
    actions = run.actions.to_pylist()
    writes = {"ram": 0, "flash": 0, "disk": 0}
    for action in actions:
        served_write = action["action"] == "serve" and zipf.writes[action["access"]]
        place = action["source"] if served_write else action["target"]
        if place is not None:
            writes[place] += 1
    assert writes == {tier["name"]: tier["page_writes"] for tier in run.figures["tiers"]}
    drops = [action for action in actions if action["action"] == "drop"]
    assert run.evictions.to_pylist() == [
        {"access": drop["access"], "page_id": drop["page_id"], "tier": drop["source"]}
        for drop in drops
    ]
    assert run.figures["tiers"] == tc.simulate(zipf, "face-gsc", tiers).figures["tiers"]


def test_only_what_is_named_is_recorded(zipf: tc.Trace) -> None:
    run = tc.simulate(zipf, "lru", {"ram": 40}, record="hits")
    assert run.actions is run.evictions is None
    distances = zipf.reuse_distances()
    expected = (distances >= 0) & (distances < 40)
    assert run.hits is not None
    assert run.hits.column("hit").to_pylist() == expected.tolist()
    assert tc.simulate(zipf, "lru", {"ram": 40}).hits is None
    with pytest.raises(tc.ConfigurationError, match='record: "misses" cannot be recorded'):
        tc.simulate(zipf, "lru", {"ram": 40}, record=["misses"])


def test_a_comparison_iterates_over_its_runs(zipf: tc.Trace) -> None:
    found = tc.compare(zipf, ["lru", "arc"], {"ram": [10, 20]})
    assert [run.policy for run in found] == ["lru", "arc"] * 2
