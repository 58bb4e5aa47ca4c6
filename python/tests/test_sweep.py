"""Sweeps here, and on a Dask cluster of several worker processes."""

import contextlib
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import thermocline as tc
from thermocline import _thermocline, _worker

# Without the extra `cluster` the tests of this file say that they skip.
pytest.importorskip("distributed")
fsspec = pytest.importorskip("fsspec")
cloudpickle = pytest.importorskip("cloudpickle")

from distributed import Client, LocalCluster  # noqa: E402, it may be missing

# Workers cannot import this module, so they are sent its functions as they are.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SWEEP = """
policies = ["lru", "arc", "face-gsc"]
warm_up = "10%"
[[trace]]
path = "one.parquet"
[[trace]]
path = "URL"
page_size = "8KiB"
[[tier]]
name = "ram"
sizes = { from = "1%", to = "16%", factor = 2 }
[[tier]]
name = "flash"
sizes = ["2x", "4x"]
[parameters]
face-gsc.group_pages = [1, 2]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep over a file and a URL."""
    folder = tmp_path_factory.mktemp("sweep")
    tc.Trace.generate("zipf", requests=30_000, pages=3_000, seed=5).save(folder / "one.parquet")
    lines = [f"0,{16 * (i * i % 997)},8192,{'wr'[i % 2]},{i}.0" for i in range(20_000)]
    with fsspec.open(f"file://{folder}/two.spc", "w") as file:
        file.write("\n".join(lines) + "\n")
    (folder / "sweep.toml").write_text(SWEEP.replace("URL", f"file://{folder}/two.spc"))
    return folder


@contextlib.contextmanager
def start_cluster() -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=3,
            threads_per_worker=2,
            processes=True,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    """A cluster for the tests that leave it as it was."""
    with start_cluster() as client:
        yield client


@pytest.fixture
def own_cluster() -> Iterator[Client]:
    """A cluster for one test, which kills workers, interrupts them, or asks what they hold."""
    with start_cluster() as client:
        yield client


@pytest.fixture(scope="module")
def local(folder: Path) -> tc.SweepResult:
    return tc.sweep(folder / "sweep.toml", folder / "local.parquet")


def test_a_sweep_here_can_be_run_again(folder: Path, local: tc.SweepResult) -> None:
    assert local.reused_points == 0
    assert local.ran_points == len(local)
    again = tc.sweep(folder / "sweep.toml", folder / "local.parquet", threads=1)
    assert (again.ran_points, again.reused_points) == (0, len(local))
    assert again.table.equals(local.table)
    assert local.plot().get_ylabel() == "miss_ratio"
    row = local.table.to_pylist()[0]
    alone = tc.simulate(folder / "one.parquet", "lru", {"ram": row["ram_pages"]}, warm_up="10%")
    assert row["ram_hits"] == alone.tiers.column("hits")[0].as_py()


def test_a_mapping_is_a_sweep(folder: Path, local: tc.SweepResult) -> None:
    spec = {
        "policies": ["lru"],
        "warm_up": "10%",
        "trace": [{"path": folder / "one.parquet"}],
        "tier": [{"name": "ram", "sizes": ["1%", "2%"]}],
    }
    with pytest.raises(tc.ConfigurationError, match="`output` is missing"):
        tc.sweep(spec)
    found = tc.sweep(spec, folder / "mapping.parquet")
    # Of each size of RAM, the first of two sizes of flash, which LRU leaves empty.
    expected = local.table.column("ram_hits").to_pylist()[:4:2]
    assert found.table.column("ram_hits").to_pylist() == expected


def kill_one(client: Client) -> None:
    """Kill a worker process."""
    pid = next(iter(client.run(os.getpid).values()))
    assert pid != os.getpid()
    os.kill(pid, signal.SIGKILL)


def test_a_cluster_finds_the_same_though_a_worker_is_killed(
    folder: Path, local: tc.SweepResult, own_cluster: Client
) -> None:
    batches: list[pa.RecordBatch] = []

    def take(batch: pa.RecordBatch) -> None:
        batches.append(batch)
        if len(batches) == 5:
            kill_one(own_cluster)

    output = folder / "cluster.parquet"
    found = tc.sweep(folder / "sweep.toml", output, cluster=own_cluster, on_batch=take)
    assert len(batches) == found.ran_points == len(local)
    assert found.table.equals(local.table)
    assert output.read_bytes() == Path(local.output).read_bytes()
    points = sorted(batch.column("point")[0].as_py() for batch in batches)
    assert points == list(range(len(local)))
    by_point = {batch.column("point")[0].as_py(): batch for batch in batches}
    for name in ("policy", "miss_ratio", "ram_hits", "result"):
        streamed = [by_point[point].column(name)[0].as_py() for point in points]
        assert streamed == local.table.column(name).to_pylist()
    again = tc.sweep(folder / "sweep.toml", output, cluster=own_cluster)
    assert again.ran_points == 0


def test_a_sweep_goes_on_where_it_was(
    folder: Path, local: tc.SweepResult, own_cluster: Client
) -> None:
    output = folder / "resumed.parquet"
    seen = []

    def stop(batch: pa.RecordBatch) -> None:
        seen.append(batch)
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tc.sweep(folder / "sweep.toml", output, cluster=own_cluster, on_batch=stop)
    assert not output.exists()
    # What a cluster left is taken up here.
    found = tc.sweep(folder / "sweep.toml", output)
    # What came in the same batch as the fourth point is kept, too.
    assert 4 <= found.reused_points < len(local)
    assert output.read_bytes() == Path(local.output).read_bytes()


def _count() -> tuple[int, int]:
    worker = _worker.this_worker()
    return worker.compiled, worker.parsed


def test_a_machine_compiles_a_trace_once_and_workers_parse_once(
    folder: Path, own_cluster: Client, tmp_path: Path
) -> None:
    counts: list[list[tuple[int, int]]] = []

    def count(batch: pa.RecordBatch) -> None:
        del batch
        counts.append(list(own_cluster.run(_count).values()))

    output = folder / "counted.parquet"
    cache = tmp_path / "cache"
    tc.sweep(folder / "sweep.toml", output, cluster=own_cluster, on_batch=count, cache_folder=cache)
    compiled = [sum(compiled for compiled, _ in workers) for workers in counts]
    assert max(compiled) == 2, "two traces, whichever of three workers runs their points"
    assert max(parsed for workers in counts for _, parsed in workers) == 1
    assert len(list(cache.glob("*.tct"))) == 2
    assert set(own_cluster.run(_count).values()) == {(0, 0)}, "they are given up at the end"


def test_compiled_traces_have_a_bound(folder: Path, cluster: Client, tmp_path: Path) -> None:
    local = tc.sweep(folder / "sweep.toml", folder / "bound-local.parquet")
    for size in ("0", "150KiB", "1GiB"):
        cache = tmp_path / size
        found = tc.sweep(
            folder / "sweep.toml",
            tmp_path / f"{size}.parquet",
            cluster=cluster,
            cache_folder=cache,
            cache_size=size,
        )
        assert found.table.equals(local.table)
        held = sum(file.stat().st_size for file in cache.glob("*.tct"))
        assert held <= _thermocline.bytes_of(size)
    with pytest.raises(tc.ConfigurationError, match="`much` is not a number of bytes"):
        tc.sweep(one_point(folder), tmp_path / "out.parquet", cluster=cluster, cache_size="much")


@pytest.mark.parametrize("processes", [1, 2])
def test_an_executor_finds_the_same(
    folder: Path, local: tc.SweepResult, tmp_path: Path, processes: int
) -> None:
    output = tmp_path / "executor.parquet"
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawning) as executor:
        found = tc.sweep(folder / "sweep.toml", output, cluster=executor, cache_folder=tmp_path)
        assert found.ran_points == len(local)
        assert output.read_bytes() == Path(local.output).read_bytes()
        absent = one_point(folder, trace=[{"path": "absent.csv"}])
        with pytest.raises(tc.TraceError, match=r"absent\.csv: cannot"):
            tc.sweep(absent, tmp_path / "absent.parquet", cluster=executor)
    with pytest.raises(tc.ClusterError, match="takes no jobs"):
        tc.sweep(one_point(folder), tmp_path / "late.parquet", cluster=executor)


def test_an_executor_whose_process_dies_is_told_and_what_is_finished_is_kept(
    folder: Path, local: tc.SweepResult, tmp_path: Path
) -> None:
    output = tmp_path / "killed.parquet"
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawning) as executor:

        def kill(batch: pa.RecordBatch) -> None:
            del batch
            for pid in list(executor._processes):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        with pytest.raises(tc.ClusterError, match=r"process of the executor died|takes no jobs"):
            tc.sweep(folder / "sweep.toml", output, cluster=executor, on_batch=kill)
    found = tc.sweep(folder / "sweep.toml", output)
    assert found.reused_points >= 1
    assert output.read_bytes() == Path(local.output).read_bytes()


def test_storage_options_reach_the_readers_of_workers(
    folder: Path, local: tc.SweepResult, cluster: Client, tmp_path: Path
) -> None:
    del local
    copies = tmp_path / "copies"
    spec = one_point(folder, trace=[{"path": f"simplecache::file://{folder}/two.spc"}])
    options = {"simplecache": {"cache_storage": str(copies)}}
    output = f"file://{tmp_path}/elsewhere.parquet"
    for where in (None, cluster):
        found = tc.sweep(
            spec, output, cluster=where, storage_options=options, cache_folder=tmp_path / "cache"
        )
        assert found.output == output
        assert found.reused_points == (0 if where is None else 1), "what is there is taken up"
        assert (tmp_path / "elsewhere.parquet").is_file()
        assert list(copies.iterdir()), "fsspec was given the options"
    with pytest.raises(tc.TraceError, match="cannot be fetched"):
        tc.sweep(
            one_point(folder, trace=[{"path": f"file://{folder}/absent.spc"}]),
            tmp_path / "out.parquet",
            cluster=cluster,
        )


def test_errors_of_a_cluster_are_ours(folder: Path, cluster: Client) -> None:
    text = (folder / "sweep.toml").read_text()
    (folder / "absent.toml").write_text(text.replace("one.parquet", "absent.parquet"))
    with pytest.raises(tc.TraceError, match=r"absent\.parquet: cannot open"):
        tc.sweep(folder / "absent.toml", cluster=cluster)
    (folder / "typo.toml").write_text(text.replace('"arc"', '"arcc"'))
    with pytest.raises(tc.ConfigurationError, match=r"typo\.toml.*line 2.*`arcc`"):
        tc.sweep(folder / "typo.toml", cluster=cluster)
    (folder / "bad.toml").write_text(text.replace("4x", "4y"))
    with pytest.raises(tc.ConfigurationError, match=r"bad\.toml.*64MiB"):
        tc.sweep(folder / "bad.toml")
    with pytest.raises(tc.FileError, match=r"no-such\.toml"):
        tc.sweep("no-such.toml")
    with pytest.raises(tc.ConfigurationError, match="omit `threads` or `cluster`"):
        tc.sweep(folder / "sweep.toml", cluster=cluster, threads=2)
    with pytest.raises(tc.ConfigurationError, match="threads=0"):
        tc.sweep(folder / "sweep.toml", threads=0)
    with pytest.raises(tc.ConfigurationError, match="pass a `cluster`"):
        tc.sweep(folder / "sweep.toml", on_batch=print)


def test_traces_that_cannot_be_read_are_told_by_the_keys_of_the_sweep(
    folder: Path, cluster: Client
) -> None:
    text = (folder / "sweep.toml").read_text()
    (folder / "noise").write_bytes(bytes(128 | (byte * byte // 7) % 128 for byte in range(999)))
    (folder / "torn.oracleGeneral").write_bytes(b"\x01" * 77)
    for name, remedy in [
        ("noise", "name it with the key `format`, one of: "),
        ("torn.oracleGeneral", "the key `allow_truncated` takes what is there"),
    ]:
        path = folder / "unread.toml"
        path.write_text(text.replace("one.parquet", name))
        message = rf"in `.*unread\.toml`: line 5, key `trace\.path`: .*{name}: .*; {remedy}"
        for client in (None, cluster):
            with pytest.raises(tc.TraceError, match=message):
                tc.sweep(path, cluster=client)
        with pytest.raises(tc.TraceError, match=remedy.replace("the key ", "")):
            tc.Trace.open(folder / name)


def test_values_of_a_mapping_are_those_of_toml(folder: Path) -> None:
    spec: dict[str, object] = {
        "policies": ("lru", "hat"),
        "check": True,
        "trace": [{"path": folder / "one.parquet"}],
        "tier": [{"name": "ram", "sizes": ["10p", "20p"]}, {"name": "flash", "sizes": "4x"}],
        "parameters": {"hat.nonhot_ratio": np.array([0.1, 0.2])},
    }
    assert len(tc.sweep(spec, folder / "plain.parquet")) == 6
    with pytest.raises(
        tc.ConfigurationError, match="key `warm_up`: invalid value None: leave the key"
    ):
        tc.sweep(spec | {"warm_up": None}, folder / "plain.parquet")
    with pytest.raises(tc.ConfigurationError, match=r"key `trace\[0\]\.format`: .* expected text"):
        tc.sweep(spec | {"trace": [{"path": "a", "format": 1j}]}, folder / "plain.parquet")
    with pytest.raises(TypeError, match=r"expected a `distributed\.Client`"):
        tc.sweep(spec, folder / "plain.parquet", cluster="tcp://1.2.3.4")  # type: ignore[arg-type]


def test_mistakes_of_a_mapping_are_told_by_its_keys(folder: Path, cluster: Client) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"policies": ["lru", "arcc"]}, r"key `policies\[1\]`: unknown policy `arcc`"),
        ({"polices": ["lru"]}, r"key `polices`: unknown field `polices`"),
        ({"trace": [{"path": "a"}, {"pth": "b"}]}, r"key `trace\[1\]\.pth`: unknown field"),
        ({"tier": [{"name": "ram", "sizes": ["1%", "2y"]}]}, r"key `tier\[0\]\.sizes\[1\]`: "),
        (
            {"tier": [{"name": "ram", "sizes": [math.nan]}]},
            r"key `tier\[0\]\.sizes\[0\]`: invalid value nan",
        ),
        ({"closed_loop": 2**64}, r"key `closed_loop`: 18446744073709551616 is invalid"),
        ({"check": "yes"}, r"key `check`: invalid type"),
    ]
    for keys, message in cases:
        with pytest.raises(tc.ConfigurationError, match=message) as caught:
            tc.sweep(one_point(folder, **keys), folder / "wrong.parquet")
        assert "line" not in str(caught.value)
    absent = one_point(folder, trace=[{"path": "absent.csv"}])
    for client in (None, cluster):
        with pytest.raises(tc.TraceError, match=r"^key `trace\[0\]\.path`: .*absent\.csv: cannot"):
            tc.sweep(absent, folder / "wrong.parquet", cluster=client)
        with pytest.raises(tc.FileError, match=r"in `.*absent`: there is no such folder"):
            tc.sweep(one_point(folder), folder / "absent" / "out.parquet", cluster=client)
    assert not list(folder.glob("wrong.parquet*"))


def one_point(folder: Path, **keys: object) -> dict[str, object]:
    """A sweep of a single point."""
    spec: dict[str, object] = {
        "policies": ["lru"],
        "trace": [{"path": folder / "one.parquet"}],
        "tier": [{"name": "ram", "sizes": ["1%"]}],
    }
    return spec | keys


WORN = """
name = "worn"
channels = 1
chips_per_channel = 1
dies_per_chip = 1
planes_per_die = 1
blocks_per_plane = 32
pages_per_block = 8
page_bytes = 4096
over_provisioning = 0.5
read_us = [50]
program_us = [600]
erase_us = 3000
command_ns = 200
bus_ns_per_byte = 7.5
queue_depth = 32
gc_threshold = 0.1
erase_limit = 1
"""


def test_errors_of_points_have_their_class(folder: Path, cluster: Client) -> None:
    saved = (folder / "one.parquet").read_bytes()
    damaged = folder / "damaged.parquet"
    damaged.write_bytes(saved[: len(saved) // 2])
    # A drive that bears one erase of each of its few blocks.
    (folder / "worn.toml").write_text(WORN)
    timing = {"timing": "events", "closed_loop": 1, "model": [f"flash={folder}/worn.toml"]}
    tiers = [{"name": "ram", "sizes": ["8p"]}, {"name": "flash", "sizes": ["96p"]}]
    cases: list[tuple[dict[str, object], type[Exception], str]] = [
        ({"trace": [{"path": damaged}]}, tc.TraceError, r"damaged\.parquet"),
        (
            {"policies": ["lru-exclusive"], "tier": tiers, **timing},
            tc.DeviceError,
            r"`lru-exclusive` with ram=8p, flash=96p on .*: worn out",
        ),
        (
            {"warm_up": "50000"},
            tc.ConfigurationError,
            r"`lru` with ram=1% on .*: a warm-up of 50000",
        ),
    ]
    for number, (keys, family, message) in enumerate(cases):
        for client in (None, cluster):
            with pytest.raises(family, match=message) as caught:
                tc.sweep(one_point(folder, **keys), folder / f"bad{number}", cluster=client)
            assert caught.type is family


def _fatal(*_arguments: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.timeout(120)
def test_what_kills_every_worker_is_told(
    folder: Path, own_cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_worker, "run_points", _fatal)
    with pytest.raises(tc.ClusterError, match=r"`lru` with ram=1% on .*: .* died, 4 of them: look"):
        tc.sweep(one_point(folder), folder / "killed.parquet", cluster=own_cluster)


def test_what_workers_cannot_know_is_told(
    folder: Path, cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It can be imported in this process only, as the package can where it is not installed.
    module = types.ModuleType("only_here")
    exec("def run_points(*arguments): return arguments", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    monkeypatch.setattr(_worker, "run_points", module.run_points)
    with pytest.raises(tc.ClusterError, match=r"workers lack something.*only_here.*install"):
        tc.sweep(one_point(folder), folder / "unknown.parquet", cluster=cluster)
    assert len(cluster.nthreads()) == 3, "no worker is lost"


def test_other_versions_are_told(
    folder: Path, cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_worker, "VERSION", "0.0.1")
    with pytest.raises(tc.ClusterError, match=r"this program has 0\.0\.1: install the same"):
        tc.sweep(one_point(folder), folder / "other.parquet", cluster=cluster)


def test_a_cluster_without_workers_is_not_waited_for(folder: Path) -> None:
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        begin = time.monotonic()
        with pytest.raises(tc.ClusterError, match=r"no worker for 0\.5 s.*wait_for_workers"):
            tc.sweep(one_point(folder), folder / "none.parquet", cluster=client, patience_s=0.5)
        assert time.monotonic() - begin < 30
        with pytest.raises(tc.ConfigurationError, match="patience_s=-1"):
            tc.sweep(one_point(folder), folder / "none.parquet", cluster=client, patience_s=-1)


def test_what_a_cluster_gives_up_is_told(folder: Path) -> None:
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        timer = threading.Timer(0.5, client.restart, kwargs={"wait_for_workers": False})
        timer.start()
        with pytest.raises(
            tc.ClusterError, match=r"trace `.*one\.parquet`: the cluster gave it up"
        ):
            tc.sweep(one_point(folder), folder / "restarted.parquet", cluster=client)
        timer.join()
