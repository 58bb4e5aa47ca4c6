"""Runs over a corpus: here, with processes of an executor, and on a Dask cluster."""

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import thermocline as tc
from thermocline import _command, _worker

MANIFEST = """
[[dataset]]
name = "zipf"
licence = "ours"
class = "synthetic"
[[dataset.trace]]
name = "one"
path = "one.spc"
sha256 = "ONE"
[[dataset]]
name = "loops"
licence = "ours"
class = "synthetic"
[[dataset.trace]]
name = "two"
path = "two.spc"
sha256 = "TWO"
"""

OPTIONS: dict[str, Any] = {
    "policies": ["fifo", "lru", "hat", "random"],
    "tiers": {"ram": ["1%", "10%"], "flash": ["2x", "0.01%"]},
    "buffers": "lru",
    "buffer_sizes": "5%",
    "seeds": 2,
    "warm_up": "10%",
}


class Lru1(tc.EvictionPolicy):
    """Evict the page that was used last: no registered policy does."""

    def __init__(self, setup: tc.CacheSetup) -> None:
        del setup
        self.pages: list[int] = []

    def hit(self, page: int, write: bool) -> None:
        del write
        self.pages.remove(page)
        self.pages.append(page)

    def miss(self, page: int, write: bool) -> None:
        del write
        self.pages.append(page)

    def evict(self, page: int, write: bool) -> int:
        del page, write
        return self.pages.pop()


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    text = MANIFEST
    for name, key, step in (("one", "ONE", 1), ("two", "TWO", 7)):
        pages = [8 * ((number * number * step) % 1009) for number in range(8000)]
        lines = [f"0,{page},4096,{'rwr'[i % 3]},{i}.0" for i, page in enumerate(pages)]
        content = "\n".join(lines) + "\n"
        (folder / f"{name}.spc").write_text(content)
        text = text.replace(key, hashlib.sha256(content.encode()).hexdigest())
    (folder / "corpus.toml").write_text(text)
    return folder / "corpus.toml"


def files(folder: str | Path) -> dict[str, bytes]:
    """The bytes of each file of a folder."""
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def local(manifest: Path) -> tc.corpus.CorpusResult:
    return tc.corpus.run(manifest, manifest.parent / "local", **OPTIONS)


def test_a_run_here_has_its_results_as_a_table(
    manifest: Path, local: tc.corpus.CorpusResult, program: str
) -> None:
    # Of each trace: RAM alone 2 sizes for FIFO, LRU and 2 seeds of `random`; one hybrid with 4
    # pairs of sizes, of which 2 have no page of flash; one buffer.
    assert (len(local), local.ran_points, local.left_out_points) == (22, 22, 4)
    table = local.table
    assert len(table) == 22
    assert set(table.column("dataset").to_pylist()) == {"loops", "zipf"}
    again = tc.corpus.run(manifest, local.output, **OPTIONS, threads=1)
    assert (again.ran_points, again.reused_points) == (0, 22)
    # The command line writes the same.
    output = manifest.parent / "command"
    words = [program, "corpus", "run", str(manifest), "--policy", "fifo,lru,hat,random"]
    words += ["--tier", "ram=1%,10%", "--tier", "flash=2x,0.01%", "--buffer", "lru"]
    words += ["--buffer-size", "5%", "--seeds", "2", "--warm-up", "10%", "-o", str(output)]
    subprocess.run(words, check=True, capture_output=True)
    assert files(output) == files(local.output)


@pytest.mark.parametrize("processes", [1, 2])
def test_an_executor_finds_the_same(
    manifest: Path, local: tc.corpus.CorpusResult, tmp_path: Path, processes: int
) -> None:
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawning) as executor:
        where: dict[str, Any] = {"cluster": executor, "cache_folder": tmp_path / "cache"}
        found = tc.corpus.run(manifest, tmp_path / "out", **OPTIONS, **where)
        assert found.outcome == local.outcome
        assert files(tmp_path / "out") == files(local.output)
        assert len(list((tmp_path / "cache").glob("*.tct"))) == 2, "each trace is compiled once"
        with pytest.raises(tc.ConfigurationError, match=r"on `.*/.*`: a warm-up of 50000"):
            tc.corpus.run(manifest, tmp_path / "bad", **{**OPTIONS, "warm_up": 50_000}, **where)
    assert not (tmp_path / "bad").exists()


def test_samples_are_the_same_elsewhere(manifest: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {**OPTIONS, "sample": 0.5, "sample_seed": 3}
    del options["warm_up"]
    here = tc.corpus.run(manifest, tmp_path / "here", **options)
    assert 0.5 in here.table.column("rate").to_pylist()
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawning) as executor:
        tc.corpus.run(
            manifest, tmp_path / "there", **options, cluster=executor, cache_folder=tmp_path / "c"
        )
    assert files(tmp_path / "there") == files(tmp_path / "here")


def test_a_policy_of_python_runs_over_a_corpus(manifest: Path, tmp_path: Path) -> None:
    found = tc.corpus.run(manifest, tmp_path / "own", [Lru1, "lru"], {"ram": "5%"}, threads=2)
    table = found.table.to_pylist()
    for trace in ("one", "two"):
        own = next(row for row in table if (row["policy"], row["trace"]) == ("Lru1", trace))
        path = manifest.parent / f"{trace}.spc"
        assert own["misses"] == tc.simulate(path, Lru1, {"ram": "5%"}).tiers["hits"][1].as_py()


def test_what_cannot_be_is_said_at_once(manifest: Path, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"policies": None, "buffers": None}, tc.ConfigurationError, "nothing to run"),
        ({"policies": "lruu"}, tc.ConfigurationError, "`lruu`"),
        ({"tiers": {"ram": "2y"}}, tc.ConfigurationError, r'tiers\["ram"\]'),
        ({"sample": 2}, tc.ConfigurationError, "sample=2: expected a share"),
        ({"shard": "3/2"}, tc.ConfigurationError, "`3/2` is not a shard"),
        ({"split": "tune"}, tc.FileError, "its traces are not split"),
        ({"datasets": "zip"}, tc.FileError, "unknown data set `zip`"),
        ({"over_time": 3}, tc.ConfigurationError, "no figures over time"),
        ({"buffer_sizes": None}, tc.ConfigurationError, "buffer_sizes: give at least one"),
        ({"threads": 0}, tc.ConfigurationError, "threads=0"),
        ({"threads": 1, "cluster": 3}, tc.ConfigurationError, "omit `threads` or `cluster`"),
        ({"cluster": "tcp://1.2.3.4"}, TypeError, r"expected a `distributed\.Client`"),
    ]
    for keys, family, message in cases:
        with pytest.raises(family, match=message):
            tc.corpus.run(manifest, tmp_path / "out", **{**OPTIONS, **keys})
    with pytest.raises(tc.FileError, match="no-such"):
        tc.corpus.run(tmp_path / "no-such.toml", tmp_path / "out", **OPTIONS)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_cluster_finds_the_same_though_a_worker_is_killed(
    manifest: Path, local: tc.corpus.CorpusResult, tmp_path: Path, client: Any
) -> None:
    seen: list[int] = []

    def kill_once(done: int, total: int, accesses: int) -> None:
        del total, accesses
        seen.append(done)
        if len(seen) == 3:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    found = tc.corpus.run(
        manifest,
        tmp_path / "out",
        **OPTIONS,
        cluster=client,
        cache_folder=tmp_path / "cache",
        progress=kill_once,
    )
    assert len(seen) > 3
    assert found.outcome == local.outcome
    assert files(tmp_path / "out") == files(local.output)


def test_a_run_goes_on_where_it_was(
    manifest: Path, local: tc.corpus.CorpusResult, tmp_path: Path, client: Any
) -> None:
    def stop(done: int, total: int, accesses: int) -> None:
        del total, accesses
        if done >= 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tc.corpus.run(manifest, tmp_path / "out", **OPTIONS, cluster=client, progress=stop)
    assert not (tmp_path / "out").exists()
    # What a cluster left is taken up here.
    found = tc.corpus.run(manifest, tmp_path / "out", **OPTIONS)
    assert 3 <= found.reused_points < len(local)
    assert files(tmp_path / "out") == files(local.output)


def test_the_command_line_runs_on_a_cluster(
    manifest: Path, local: tc.corpus.CorpusResult, tmp_path: Path, client: Any, program: str
) -> None:
    output = tmp_path / "out"
    words = [program, "corpus", "run", str(manifest), "--policy", "fifo,lru,hat,random"]
    words += ["--tier", "ram=1%,10%", "--tier", "flash=2x,0.01%", "--buffer", "lru"]
    words += ["--buffer-size", "5%", "--seeds", "2", "--warm-up", "10%", "-o", str(output)]
    words += ["--python", sys.executable, "--dask"]
    address = client.scheduler.address
    ran = subprocess.run([*words, address, "--json"], check=True, capture_output=True, text=True)
    assert json.loads(ran.stdout) == local.outcome
    assert files(output) == files(local.output)
    # Mistakes are told in one sentence, and none of them leaves a folder.
    bad = subprocess.run([*words, "nonsense://x"], check=False, capture_output=True, text=True)
    assert bad.returncode != 0
    assert "no scheduler answers at `nonsense://x`" in bad.stderr
    assert "start one with `dask scheduler`" in bad.stderr
    words[words.index(sys.executable)] = "no-such-python"
    none = subprocess.run([*words, address], check=False, capture_output=True, text=True)
    assert "cannot start `no-such-python`: install the Python package" in none.stderr
    words[words.index("no-such-python")] = "false"
    none = subprocess.run([*words, address], check=False, capture_output=True, text=True)
    assert "`false` gave no answer" in none.stderr
    assert "pip install 'thermocline[cluster]==" in none.stderr


def test_the_command_line_must_be_of_the_same_version() -> None:
    with pytest.raises(tc.ClusterError, match=r"and the command line 0\.0\.1: install the same"):
        _command.answer_of({"version": "0.0.1"})


def test_workers_of_another_version_are_told(
    manifest: Path, tmp_path: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_worker, "VERSION", "0.0.1")
    with pytest.raises(tc.ClusterError, match=r"and this program has 0\.0\.1: install the same"):
        tc.corpus.run(manifest, tmp_path / "out", **OPTIONS, cluster=client)
