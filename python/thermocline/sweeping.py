"""Sweeps: traces by policies by sizes by parameters, here or on a cluster."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from thermocline import _cluster, _output, _remote, _thermocline, _worker
from thermocline._progress import Progress, watching
from thermocline.errors import ConfigurationError, FileError, TraceError
from thermocline.policy import Given, separate
from thermocline.results import SweepResult

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from os import PathLike

    from distributed import Client

__all__ = ["sweep"]


def sweep(
    spec: str | PathLike[str] | Mapping[str, Any],
    output: str | PathLike[str] | None = None,
    *,
    threads: int | None = None,
    cluster: Client | Executor | None = None,
    client: Client | None = None,
    on_batch: Callable[[pa.RecordBatch], object] | None = None,
    patience_s: float = 60.0,
    storage_options: Mapping[str, Any] | None = None,
    cache_folder: str | PathLike[str] | None = None,
    cache_size: str | int = "16GiB",
    progress: Progress = None,
) -> SweepResult:
    """Run a sweep: all traces by all policies by all parameters by all sizes.

    Results are on disk before their points count as finished. Interrupted or killed at any time,
    a sweep goes on where it was when it is run again, here or on a cluster. The output is the
    same, byte by byte, for any number of threads or workers.

    Parameters
    ----------
    spec : str or PathLike or Mapping
        A TOML file as for ``thermocline sweep`` (``docs/sweeps.md``), or what it would say. Paths
        are relative to the file, or to the working directory; a trace may be a URL as in
        ``s3://...``, with fsspec installed.
    output : str or PathLike, optional
        The Parquet file of the results; the name of the TOML file, ending in ``.parquet``, if not
        given. It is written here, not on workers. A URL as in ``s3://...`` is written when the
        sweep is complete; until then its results are in a folder of this machine.
    threads : int, optional
        Number of runs at once, from 1 to 4096; default: the number of processors. A
        cluster has as many as its workers have threads.
    cluster : distributed.Client or concurrent.futures.Executor, optional
        Place where the points run: a Dask cluster, of which points of a worker that fails are run
        by others, or an executor, such as a ``ProcessPoolExecutor``. Each worker understands the
        sweep once, and each machine compiles a trace once.
    client : distributed.Client, optional
        The former name of `cluster`.
    on_batch : callable, optional
        Is given the row of each point, a ``pyarrow.RecordBatch`` of ``point`` and the columns of
        the output, as soon as it comes from the cluster; only with `cluster`.
    patience_s : float, optional
        Time that a Dask cluster may be without any worker before the sweep ends, >= 0, unit: s;
        ``math.inf`` where workers come when a queue lets them.
    storage_options : Mapping[str, Any], optional
        Options of fsspec to reach URLs, such as credentials or an endpoint, here and on workers.
        It is kept in no file.
    cache_folder : str or PathLike, optional
        Folder where each machine of a cluster keeps compiled traces, which its workers share; a
        folder of the user among the temporary files if not given.
    cache_size : str or int, optional
        Maximum number of bytes in that folder, as in ``"16GiB"``. The traces that were used
        longest ago go first, and none that is in use.
    progress : bool or callable, optional
        Show a progress bar, or call this function with it; default: a bar on a terminal.

    Returns
    -------
    SweepResult
        A row per point, in the order of the sweep.

    Raises
    ------
    ConfigurationError
        If the sweep is not as it should be; the message names the key, and of a file the line.
    TraceError
        If a trace cannot be read.
    FileError
        If a file cannot be read or written, or another sweep writes to this output.
    ClusterError
        If workers die of a point or fail on it again and again, if they lack something, or if
        there are none for longer than `patience_s`. What is finished is kept.

    Examples
    --------
    >>> import tempfile
    >>> import thermocline as tc
    >>> folder = tempfile.mkdtemp()
    >>> tc.Trace.generate("zipf", requests=2000, pages=300).save(f"{folder}/trace.parquet")
    >>> spec = {
    ...     "policies": ["lru", "arc"],
    ...     "trace": [{"path": f"{folder}/trace.parquet"}],
    ...     "tier": [{"name": "ram", "sizes": ["5%", "10%"]}],
    ... }
    >>> found = tc.sweep(spec, f"{folder}/out.parquet")
    >>> found.table.column("policy").to_pylist()
    ['lru', 'lru', 'arc', 'arc']
    """
    source, target = _read(spec, output)
    with _named(spec):
        parsed = source.sweep()
    if cluster is not None and client is not None:
        message = "`client` is the former name of `cluster`: pass one of them"
        raise ConfigurationError(message)
    cluster = client if cluster is None else cluster
    if cluster is None and on_batch is not None:
        message = "`on_batch` reports batches from a cluster: pass a `cluster`"
        raise ConfigurationError(message)
    _cluster.check(threads, cluster, patience_s)
    node = _worker.Node.of(cache_folder, cache_size)
    source = source._replace(storage_options=storage_options, node=node)
    workers = None if cluster is None else _cluster.workers_of(cluster, patience_s)
    with _output.staged(target, storage_options) as place:
        _thermocline.Sweep.check_output(place)
        with watching(progress, "points") as watch, _named(spec):
            if workers is None:
                with tempfile.TemporaryDirectory(prefix="thermocline-") as folder:
                    here = parsed.with_paths(
                        [_here(trace, folder, storage_options) for trace in parsed.traces()]
                    )
                    figures = json.loads(here.run(place, threads or 0, watch))
            else:
                asked = _cluster.Cluster(workers, _cluster.blob_of(source))
                figures = _on_cluster(asked, parsed, place, on_batch, watch)
        figures["output"] = target
        return SweepResult(figures, pq.read_table(place))


def _read(
    spec: str | PathLike[str] | Mapping[str, Any],
    output: str | PathLike[str] | None,
) -> tuple[_worker.Spec, str]:
    """Give the text of a sweep, the folder that its paths are relative to, and the output."""
    if isinstance(spec, Mapping):
        if output is None:
            message = "`output` is missing: a sweep that is not a file has no name for it"
            raise ConfigurationError(message)
        names: object = spec.get("policies")
        brought: list[Given] = []
        if not isinstance(names, str | None):
            tiers = spec.get("tier")
            count = len(tiers) if isinstance(tiers, Sequence) else 1
            names, brought = separate(names, count)
        plain = _plain({**spec, "policies": names} if brought else spec, "")
        text = _thermocline.Sweep.to_toml(json.dumps(plain))
        source = _worker.Spec(text, str(Path.cwd()), is_mapping=True, policies=brought)
        return source, os.fspath(output)
    path = Path(spec)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"in `{path}`: {error}"
        raise FileError(message) from None
    target = path.with_suffix(".parquet") if output is None else output
    return _worker.Spec(
        text, str(path.parent.absolute()), is_mapping=False, policies=[]
    ), os.fspath(target)


def _plain(value: object, key: str) -> Any:
    """Give what a sweep says in the words of TOML, or say which key has a value of another kind."""
    if isinstance(value, Mapping):
        inside = f"{key}." if key else ""
        return {str(name): _plain(one, f"{inside}{name}") for name, one in value.items()}
    if isinstance(value, str | bool):
        return value
    if isinstance(value, Integral) and not -(2**63) <= int(value) < 2**63:
        message = f"key `{key}`: {value} is invalid: expected numbers of 64 bits"
        raise ConfigurationError(message)
    if isinstance(value, Real) and math.isfinite(value):
        return int(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [_plain(one, f"{key}[{place}]") for place, one in enumerate(value)]
    kinds = "expected text, finite numbers, lists or mappings"
    remedy = "leave the key out" if value is None else kinds
    message = f"key `{key}`: invalid value {value!r}: {remedy}"
    raise ConfigurationError(message)


@contextmanager
def _named(spec: object) -> Iterator[None]:
    """Name the file of a sweep in what is wrong with it or with its traces."""
    try:
        yield
    except (ConfigurationError, TraceError) as error:
        if isinstance(spec, Mapping):
            raise
        message = f"in `{spec}`: {error}"
        raise type(error)(message) from None


def _here(trace: tuple[str, str], folder: str, options: Mapping[str, Any] | None) -> str:
    """Give the path of a trace, fetched if its name is a URL."""
    name, path = trace
    return _remote.fetch(name, folder, options) if _remote.is_url(name) else path


def _on_cluster(
    cluster: _cluster.Cluster,
    sweep: _thermocline.Sweep,
    target: str,
    on_batch: Callable[[pa.RecordBatch], object] | None,
    watch: Callable[[int, int, int], object] | None,
) -> Any:
    """Run the points that are not finished on a cluster, and write the output here."""
    tell = watch or (lambda _done, _total, _accesses: None)
    names = [f"trace `{name}`" for name, _ in sweep.traces()]
    hashing = [_cluster.Job(trace, name, trace) for trace, name in enumerate(names)]
    answers = cluster.answers(_worker.hash_traces, hashing)
    hashes = {trace: found for batch in answers for trace, found in batch}
    running = sweep.begin(target, [hashes[trace] for trace in range(len(names))])
    points = sweep.points()
    missing = running.missing(sweep)
    asked = [
        _cluster.Job(points[point][0], points[point][1], (point, key, points[point][0], sha256))
        for point, key, sha256 in missing
    ]
    total = len(points)
    done, accesses = total - len(missing), 0
    tell(done, total, accesses)
    try:
        for batch in cluster.answers(_worker.run_points, asked):
            accesses += running.keep([row for _, row in batch])
            done += len(batch)
            for place, row in batch:
                if on_batch is not None:
                    on_batch(_batch(missing[place][0], row))
            tell(done, total, accesses)
        return json.loads(running.finish())
    finally:
        # An error's traceback, which a notebook keeps, would keep the output for itself.
        running.close()
        cluster.forget()


def _batch(point: int, text: str) -> pa.RecordBatch:
    """Give the row of a point as Arrow: its figures, and the row as JSON."""
    row = json.loads(text)
    tiers = row.pop("tiers")
    for name in ("parameters", "admission"):
        if name in row:
            row[name] = json.dumps(row[name])
    for tier in tiers:
        if tier["capacity_pages"] is not None:
            row[f"{tier['name']}_pages"] = tier["capacity_pages"]
        for figure in ("hits", "page_reads", "page_writes"):
            row[f"{tier['name']}_{figure}"] = tier[figure]
    return pa.RecordBatch.from_pylist([{"point": point, **row, "result": text}])
