"""Corpora: many traces from a manifest, run here or on a cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from thermocline import _cluster, _thermocline, _worker
from thermocline._options import checked
from thermocline._progress import Progress, watching
from thermocline.errors import ConfigurationError, FileError
from thermocline.policy import Given, separate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor
    from os import PathLike

    from distributed import Client
    from typing_extensions import Unpack

    from thermocline._options import HierarchyOptions, Size, Value
    from thermocline.lab import PolicyLike

__all__ = ["CorpusResult", "run"]


class CorpusResult:
    """Outcome of a run over a corpus, and its results.

    Attributes
    ----------
    output : str
        The folder of the results.
    traces : int
        Number of traces that took part.
    ran_points : int
        Number of points that were run.
    reused_points : int
        Number of points that had results from an earlier run.
    left_out_points : int
        Number of points that have a tier of less than one page, and no result.
    dropped_results : int
        Number of earlier results dropped, because their traces are not in the manifest.
    rows : int
        Number of results.
    outcome : dict[str, int]
        All these counts by their names.
    """

    def __init__(self, outcome: Mapping[str, int], output: str) -> None:
        self.output = output
        self.outcome = dict(outcome)
        self.traces = outcome["traces"]
        self.ran_points = outcome["ran_points"]
        self.reused_points = outcome["reused_points"]
        self.left_out_points = outcome["left_out_points"]
        self.dropped_results = outcome["dropped_results"]
        self.rows = outcome["rows"]

    @property
    def table(self) -> pa.Table:
        """All results of the folder, with a column `dataset`; ``docs/corpus.md`` has the others."""
        tables = []
        for path in sorted(Path(self.output).glob("dataset=*/results.parquet")):
            table = pq.read_table(path, partitioning=None)
            dataset = pa.array([path.parent.name.removeprefix("dataset=")] * len(table))
            tables.append(table.append_column("dataset", dataset))
        return pa.concat_tables(tables)

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        return f"CorpusResult({self.rows} results of {self.traces} traces in {self.output!r})"


def run(
    manifest: str | PathLike[str],
    output: str | PathLike[str],
    policies: PolicyLike | Sequence[PolicyLike] | None = None,
    tiers: Mapping[str, Size | Sequence[Size]] | None = None,
    *,
    root: str | PathLike[str] | None = None,
    buffers: str | Sequence[str] | None = None,
    buffer_sizes: Size | Sequence[Size] | None = None,
    buffer_parameters: Mapping[str, Value] | None = None,
    ssd: str | None = None,
    buffer_closed_loop: int | None = None,
    sample: float | Literal["auto"] | None = None,
    sample_seed: int = 1,
    seeds: int = 5,
    split: Literal["tune", "hold-out"] | None = None,
    datasets: str | Sequence[str] | None = None,
    shard: str | None = None,
    compiled: str | PathLike[str] | None = None,
    threads: int | None = None,
    memory: str | int = "4GiB",
    cluster: Client | Executor | None = None,
    patience_s: float = 60.0,
    cache_folder: str | PathLike[str] | None = None,
    cache_size: str | int = "16GiB",
    progress: Progress = None,
    **options: Unpack[HierarchyOptions],
) -> CorpusResult:
    """Run all traces of a manifest with all policies and all sizes, here or on a cluster.

    The results are a Parquet data set, one file per data set of the manifest. It is the same, byte
    by byte, for any number of threads or workers, and as ``thermocline corpus run`` writes it. A
    run that was interrupted or killed goes on where it was when it is run again, here or on a
    cluster.

    Parameters
    ----------
    manifest : str or PathLike
        The manifest, a TOML file (``docs/corpus.md``). Each trace needs its ``sha256``.
    output : str or PathLike
        The folder of the results, on this machine.
    policies : str or type, or a sequence of them, optional
        Registered policies by name, and classes of Python; ``"all"`` that run on the tiers.
    tiers : Mapping[str, Size or Sequence[Size]], optional
        The cache tiers with their sizes. One-tier policies run on the first tier alone.
    root : str or PathLike, optional
        The folder that the paths of traces are relative to; that of the manifest if not given.
    buffers : str or Sequence[str], optional
        Write buffers to run as well; see :func:`buffers`.
    buffer_sizes : Size or Sequence[Size], optional
        The sizes of the write buffers.
    buffer_parameters : Mapping[str, Value], optional
        Parameters of write buffers.
    ssd : str, optional
        The drive behind the write buffers, as large as holds each trace; none if not given.
    buffer_closed_loop : int, optional
        Requests to the drive kept outstanding instead of the trace's times, >= 1.
    sample : float or "auto", optional
        The share of pages on which caches are simulated, in ``(0, 1]``; ``"auto"`` for as little
        as each size allows.
    sample_seed : int, optional
        The seed of samples, >= 0.
    seeds : int, optional
        Number of seeds with which a policy that draws random numbers runs, from 1 to 1000.
    split : {"tune", "hold-out"}, optional
        Run the traces of one side of the split only.
    datasets : str or Sequence[str], optional
        Run these data sets only.
    shard : str, optional
        Run one of several parts of the traces, as in ``"1/4"``.
    compiled : str or PathLike, optional
        Folder of compiled traces, from ``thermocline corpus compile``.
    threads : int, optional
        Number of runs at once, from 1 to 4096; default: the number of processors. A
        cluster has as many as its workers have threads.
    memory : str or int, optional
        Bytes that traces and policies may take together here; a cluster's workers have limits of
        their own.
    cluster : distributed.Client or concurrent.futures.Executor, optional
        Place where the points run, as for :func:`sweep`. Workers read traces at the paths of the
        manifest; a trace that is not there is fetched or generated, and not kept as a file. Each
        machine compiles a trace once.
    patience_s : float, optional
        Time that a Dask cluster may be without any worker before the run ends, >= 0, unit: s.
    cache_folder : str or PathLike, optional
        Folder where each machine of a cluster keeps compiled traces, as for :func:`sweep`.
    cache_size : str or int, optional
        Maximum number of bytes in that folder, as in ``"16GiB"``.
    progress : bool or callable, optional
        Show a progress bar, or call this function with it; default: a bar on a terminal.
    **options : HierarchyOptions
        More about the hierarchy; see :class:`HierarchyOptions`.

    Returns
    -------
    CorpusResult
        Outcome of the run, and all results as a table.

    Raises
    ------
    ConfigurationError
        If a policy, a size or an option cannot be.
    TraceError
        If a trace cannot be read, or has no hash in the manifest.
    FileError
        If the manifest or a result cannot be read or written.
    ClusterError
        If workers die of a point or fail on it again and again, if they lack something, or if
        there are none for longer than `patience_s`. What is finished is kept.
    """
    if policies is None and buffers is None:
        message = "nothing to run: pass `policies` with `tiers`, or `buffers`"
        raise ConfigurationError(message)
    names, brought = (None, []) if policies is None else separate(policies, len(tiers or {}))
    arguments = {
        "policies": names,
        "tiers": tiers,
        "buffers": buffers,
        "buffer_sizes": buffer_sizes,
        "buffer_parameters": buffer_parameters,
        "ssd": ssd,
        "buffer_closed_loop": buffer_closed_loop,
        "sample": sample,
        "sample_seed": sample_seed,
        "seeds": seeds,
        "split": split,
        "datasets": datasets,
        "shard": shard,
        **checked(options),
    }
    _cluster.check(threads, cluster, patience_s)
    asked = spec_of(
        manifest,
        _thermocline.Corpus.request(arguments),
        brought,
        root=root,
        compiled=compiled,
        cache_folder=cache_folder,
        cache_size=cache_size,
    )
    place = os.fspath(output)
    with watching(progress, "points") as watch:
        if cluster is not None:
            workers = _cluster.workers_of(cluster, patience_s)
            return on_cluster(asked, workers, place, watch)
        bytes_max = _thermocline.bytes_of(str(memory))
        corpus = asked.corpus()
        found = corpus.run(place, threads or 0, bytes_max, asked.compiled, watch)
        return CorpusResult(json.loads(found), place)


def spec_of(
    manifest: str | PathLike[str],
    request: str,
    brought: list[Given],
    *,
    root: str | PathLike[str] | None,
    compiled: str | PathLike[str] | None,
    cache_folder: str | PathLike[str] | None,
    cache_size: str | int,
) -> _worker.CorpusSpec:
    """Give all that a process needs to run points of a corpus."""
    try:
        text = Path(manifest).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"in `{manifest}`: {error}"
        raise FileError(message) from None
    return _worker.CorpusSpec(
        text,
        str(Path(manifest).absolute()),
        None if root is None else str(Path(root).absolute()),
        str(Path.cwd()),
        request,
        brought,
        None if compiled is None else str(Path(compiled).absolute()),
        _worker.Node.of(cache_folder, cache_size),
    )


def on_cluster(
    asked: _worker.CorpusSpec,
    workers: _cluster.Workers,
    output: str,
    watch: Callable[[int, int, int], object] | None,
) -> CorpusResult:
    """Run the points that are not finished on workers, and write the results here."""
    tell = watch or (lambda _done, _total, _accesses: None)
    corpus = asked.corpus()
    cluster = _cluster.Cluster(workers, _cluster.blob_of(asked))
    running = corpus.begin(output)
    try:
        jobs = _jobs(corpus, running.units())
        total = running.reused_points() + sum(len(job.given[1]) for job in jobs)
        done, ran, accesses = running.reused_points(), 0, 0
        tell(done, total, accesses)
        for batch in cluster.answers(_worker.run_corpus_points, jobs):
            rows, looked_at = running.keep([answer for _, answer in batch])
            ran, accesses = ran + rows, accesses + looked_at
            done += sum(len(jobs[place].given[1]) for place, _ in batch)
            tell(done, total, accesses)
        left_out = total - running.reused_points() - ran
        return CorpusResult(json.loads(running.finish(corpus, left_out)), output)
    finally:
        running.close()
        cluster.forget()


def _jobs(corpus: _thermocline.Corpus, units: list[tuple[int, list[int]]]) -> list[_cluster.Job]:
    """Give a job for each point, or for all points of a trace that share samples of it."""
    jobs: list[_cluster.Job] = []
    for trace, points in units:
        parts: list[list[Any]] = [points] if corpus.is_sampled else [[one] for one in points]
        jobs += [
            _cluster.Job(trace, corpus.describe(trace, part[0]), (trace, part)) for part in parts
        ]
    return jobs
