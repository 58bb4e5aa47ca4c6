"""Sweeps here, and on a Dask cluster of several worker processes."""

import math
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import fsspec
import numpy as np
import pyarrow as pa
import pytest
import thermocline as tc
from distributed import Client, LocalCluster
from thermocline import _cluster

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


@pytest.fixture
def cluster() -> Iterator[Client]:
    """A cluster of its own for each test: what one kills is no other's matter."""
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
    with pytest.raises(tc.ConfigurationError, match="give an `output`"):
        tc.sweep(spec)
    found = tc.sweep(spec, folder / "mapping.parquet")
    expected = local.table.column("ram_hits").to_pylist()[:2]
    assert found.table.column("ram_hits").to_pylist() == expected


def kill_one(client: Client) -> None:
    """Kill a worker process."""
    pid = next(iter(client.run(os.getpid).values()))
    assert pid != os.getpid()
    os.kill(pid, signal.SIGKILL)


def test_a_cluster_finds_the_same_though_a_worker_is_killed(
    folder: Path, local: tc.SweepResult, cluster: Client
) -> None:
    batches: list[pa.RecordBatch] = []

    def take(batch: pa.RecordBatch) -> None:
        batches.append(batch)
        if len(batches) == 5:
            kill_one(cluster)

    output = folder / "cluster.parquet"
    found = tc.sweep(folder / "sweep.toml", output, client=cluster, on_batch=take)
    assert len(batches) == found.ran_points == len(local)
    assert found.table.equals(local.table)
    assert output.read_bytes() == Path(local.output).read_bytes()
    points = sorted(batch.column("point")[0].as_py() for batch in batches)
    assert points == list(range(len(local)))
    by_point = {batch.column("point")[0].as_py(): batch for batch in batches}
    for name in ("policy", "miss_ratio", "ram_hits", "result"):
        streamed = [by_point[point].column(name)[0].as_py() for point in points]
        assert streamed == local.table.column(name).to_pylist()
    again = tc.sweep(folder / "sweep.toml", output, client=cluster)
    assert again.ran_points == 0


def test_a_sweep_goes_on_where_it_was(folder: Path, local: tc.SweepResult, cluster: Client) -> None:
    output = folder / "resumed.parquet"
    seen = []

    def stop(batch: pa.RecordBatch) -> None:
        seen.append(batch)
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tc.sweep(folder / "sweep.toml", output, client=cluster, on_batch=stop)
    assert not output.exists()
    # What a cluster left is taken up here.
    found = tc.sweep(folder / "sweep.toml", output)
    assert found.reused_points == 4
    assert output.read_bytes() == Path(local.output).read_bytes()


def _count_compiled() -> int:
    return _cluster.this_worker().compiled


def test_a_worker_compiles_a_trace_once(folder: Path, cluster: Client) -> None:
    compiled: list[dict[str, int]] = []
    total = 48

    def count(batch: pa.RecordBatch) -> None:
        del batch
        if len(compiled) < total:
            compiled.append(cluster.run(_count_compiled))

    tc.sweep(folder / "sweep.toml", folder / "counted.parquet", client=cluster, on_batch=count)
    assert max(max(one.values()) for one in compiled) <= 2
    assert set(cluster.run(_count_compiled).values()) == {0}, "they are given up at the end"


def test_errors_of_a_cluster_are_ours(folder: Path, cluster: Client) -> None:
    text = (folder / "sweep.toml").read_text()
    (folder / "absent.toml").write_text(text.replace("one.parquet", "absent.parquet"))
    with pytest.raises(tc.TraceError, match=r"absent\.parquet: cannot open"):
        tc.sweep(folder / "absent.toml", client=cluster)
    (folder / "typo.toml").write_text(text.replace('"arc"', '"arcc"'))
    with pytest.raises(tc.ConfigurationError, match=r"typo\.toml.*line 2.*`arcc`"):
        tc.sweep(folder / "typo.toml", client=cluster)
    (folder / "bad.toml").write_text(text.replace("4x", "4y"))
    with pytest.raises(tc.ConfigurationError, match=r"bad\.toml.*64MiB"):
        tc.sweep(folder / "bad.toml")
    with pytest.raises(tc.FileError, match=r"no-such\.toml"):
        tc.sweep("no-such.toml")
    with pytest.raises(tc.ConfigurationError, match="leave `threads` or `client` out"):
        tc.sweep(folder / "sweep.toml", client=cluster, threads=2)
    with pytest.raises(tc.ConfigurationError, match="threads=0"):
        tc.sweep(folder / "sweep.toml", threads=0)
    with pytest.raises(tc.ConfigurationError, match="give a `client`"):
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
                tc.sweep(path, client=client)
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
    with pytest.raises(tc.ConfigurationError, match="key `warm_up`: None cannot be: leave the key"):
        tc.sweep(spec | {"warm_up": None}, folder / "plain.parquet")
    with pytest.raises(tc.ConfigurationError, match=r"key `trace\[0\]\.format`: .* it takes text"):
        tc.sweep(spec | {"trace": [{"path": "a", "format": 1j}]}, folder / "plain.parquet")
    with pytest.raises(TypeError, match=r"takes a `distributed\.Client`"):
        tc.sweep(spec, folder / "plain.parquet", client="tcp://1.2.3.4")  # type: ignore[arg-type]


def test_mistakes_of_a_mapping_are_told_by_its_keys(folder: Path, cluster: Client) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"policies": ["lru", "arcc"]}, r"key `policies\[1\]`: no policy is called `arcc`"),
        ({"polices": ["lru"]}, r"key `polices`: unknown field `polices`"),
        ({"trace": [{"path": "a"}, {"pth": "b"}]}, r"key `trace\[1\]\.pth`: unknown field"),
        ({"tier": [{"name": "ram", "sizes": ["1%", "2y"]}]}, r"key `tier\[0\]\.sizes\[1\]`: "),
        ({"tier": [{"name": "ram", "sizes": [math.nan]}]}, r"key `tier\[0\]\.sizes\[0\]`: nan"),
        ({"closed_loop": 2**64}, r"key `closed_loop`: 18446744073709551616 cannot be"),
        ({"check": "yes"}, r"key `check`: invalid type"),
    ]
    for keys, message in cases:
        with pytest.raises(tc.ConfigurationError, match=message) as caught:
            tc.sweep(one_point(folder, **keys), folder / "wrong.parquet")
        assert "line" not in str(caught.value)
    absent = one_point(folder, trace=[{"path": "absent.csv"}])
    for client in (None, cluster):
        with pytest.raises(tc.TraceError, match=r"^key `trace\[0\]\.path`: .*absent\.csv: cannot"):
            tc.sweep(absent, folder / "wrong.parquet", client=client)
        with pytest.raises(tc.FileError, match=r"in `.*absent`: there is no such folder"):
            tc.sweep(one_point(folder), folder / "absent" / "out.parquet", client=client)
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
                tc.sweep(one_point(folder, **keys), folder / f"bad{number}", client=client)
            assert caught.type is family


def _fatal(*_arguments: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.timeout(120)
def test_what_kills_every_worker_is_told(
    folder: Path, cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cluster, "run_point", _fatal)
    with pytest.raises(tc.ClusterError, match=r"`lru` with ram=1% on .*: .* died, 4 of them: look"):
        tc.sweep(one_point(folder), folder / "killed.parquet", client=cluster)


def test_what_workers_cannot_know_is_told(
    folder: Path, cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It can be imported in this process only, as the package can where it is not installed.
    module = types.ModuleType("only_here")
    exec("def run_point(*arguments): return arguments", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    monkeypatch.setattr(_cluster, "run_point", module.run_point)
    with pytest.raises(tc.ClusterError, match=r"workers lack something.*only_here.*install"):
        tc.sweep(one_point(folder), folder / "unknown.parquet", client=cluster)
    assert len(cluster.nthreads()) == 3, "no worker is lost"


def test_other_versions_are_told(
    folder: Path, cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cluster, "VERSION", "0.0.1")
    with pytest.raises(tc.ClusterError, match=r"and here is 0\.0\.1: install the same"):
        tc.sweep(one_point(folder), folder / "other.parquet", client=cluster)


def test_a_cluster_without_workers_is_not_waited_for(folder: Path) -> None:
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        begin = time.monotonic()
        with pytest.raises(tc.ClusterError, match=r"no worker for 0\.5 s.*wait_for_workers"):
            tc.sweep(one_point(folder), folder / "none.parquet", client=client, patience_s=0.5)
        assert time.monotonic() - begin < 30
        with pytest.raises(tc.ConfigurationError, match="patience_s=-1"):
            tc.sweep(one_point(folder), folder / "none.parquet", client=client, patience_s=-1)


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
            tc.sweep(one_point(folder), folder / "restarted.parquet", client=client)
        timer.join()
