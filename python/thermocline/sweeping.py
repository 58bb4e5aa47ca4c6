"""Sweeps: traces by policies by sizes by parameters, here or on a Dask cluster."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from thermocline import _remote, _thermocline
from thermocline._progress import Progress, watching
from thermocline.errors import (
    ClusterError,
    ConfigurationError,
    FileError,
    ThermoclineError,
)
from thermocline.results import SweepResult

if TYPE_CHECKING:
    from os import PathLike

    from distributed import Client

__all__ = ["sweep"]

RETRIES = 3
"""How often a point is tried again after an error that is not ours, as of a network."""

TRACES_PER_WORKER = 4
"""How many traces a worker keeps; the points of one are run one after the other."""


class _Spec(NamedTuple):
    """A sweep as it is sent to workers."""

    text: str
    folder: str

    def sweep(self) -> _thermocline.Sweep:
        return _thermocline.Sweep(self.text, self.folder)


def sweep(
    spec: str | PathLike[str] | Mapping[str, Any],
    output: str | PathLike[str] | None = None,
    *,
    threads: int | None = None,
    client: Client | None = None,
    on_batch: Callable[[pa.RecordBatch], object] | None = None,
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
        given. It is written here, not on workers.
    threads : int, optional
        How many runs at once, from 1 to 4096; as many as there are processors if not given. A
        cluster has as many as its workers have threads.
    client : distributed.Client, optional
        A cluster that runs the points. Each worker fetches and compiles a trace once. Points of
        a worker that fails are run by others.
    on_batch : callable, optional
        Is given the row of each point, a ``pyarrow.RecordBatch`` of ``point`` and the columns of
        the output, as soon as it comes from the cluster; only with `client`.
    progress : bool or callable, optional
        Whether a bar is shown, or what is told how far it is; on a terminal if not given.

    Returns
    -------
    SweepResult
        A row per point, in the order of the sweep.

    Raises
    ------
    ConfigurationError
        If the sweep is not as it should be; the message names line and key.
    TraceError
        If a trace cannot be read.
    FileError
        If a file cannot be read or written, or another sweep writes to this output.
    ClusterError
        If workers fail on a point again and again.

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
    parsed = _parse(source, spec)
    if threads is not None and not 1 <= threads <= 4096:
        message = f"threads={threads}: it takes a whole number from 1 to 4096"
        raise ConfigurationError(message)
    if client is None and on_batch is not None:
        message = "`on_batch` is told of what comes from a cluster: give a `client`"
        raise ConfigurationError(message)
    if client is not None and threads is not None:
        message = "a cluster has the threads of its workers: leave `threads` or `client` out"
        raise ConfigurationError(message)
    with watching(progress, "points") as watch:
        if client is None:
            with tempfile.TemporaryDirectory(prefix="thermocline-") as folder:
                here = parsed.with_paths([_here(trace, folder) for trace in parsed.traces()])
                figures = json.loads(here.run(target, threads or 0, watch))
        else:
            figures = _on_cluster(client, source, parsed, target, on_batch, watch)
    return SweepResult(figures, pq.read_table(target))


def _read(
    spec: str | PathLike[str] | Mapping[str, Any],
    output: str | PathLike[str] | None,
) -> tuple[_Spec, str]:
    """Give the text of a sweep, the folder that its paths are relative to, and the output."""
    if isinstance(spec, Mapping):
        if output is None:
            message = "a sweep that is no file has no name: give an `output`"
            raise ConfigurationError(message)
        text = _thermocline.Sweep.to_toml(json.dumps(spec, default=os.fspath))
        return _Spec(text, str(Path.cwd())), os.fspath(output)
    path = Path(spec)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"in `{path}`: {error}"
        raise FileError(message) from None
    target = path.with_suffix(".parquet") if output is None else output
    return _Spec(text, str(path.parent.absolute())), os.fspath(target)


def _parse(source: _Spec, spec: object) -> _thermocline.Sweep:
    try:
        return source.sweep()
    except ThermoclineError as error:
        if isinstance(spec, Mapping):
            raise
        message = f"in `{spec}`: {error}"
        raise type(error)(message) from None


def _here(trace: tuple[str, str], folder: str) -> str:
    """Give the path of a trace, fetched if its name is a URL."""
    name, path = trace
    return _remote.fetch(name, folder) if _remote.is_url(name) else path


class _Worker:
    """What a worker process keeps between points: its traces, the last ones used."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.folder = tempfile.TemporaryDirectory(prefix="thermocline-worker-")
        self.files: dict[str, str] = {}
        self.traces: OrderedDict[tuple[_Spec, int], _thermocline.Trace] = OrderedDict()
        self.compiled = 0

    def located(self, spec: _Spec, trace: int) -> _thermocline.Sweep:
        """Give the sweep with a trace whose file is here."""
        sweep = spec.sweep()
        traces = sweep.traces()
        name, _ = traces[trace]
        if not _remote.is_url(name):
            return sweep
        if name not in self.files:
            self.files[name] = _remote.fetch(name, self.folder.name)
        paths = [path for _, path in traces]
        paths[trace] = self.files[name]
        return sweep.with_paths(paths)

    def sha256(self, spec: _Spec, trace: int) -> str:
        with self.lock:
            return self.located(spec, trace).sha256(trace)

    def trace(self, spec: _Spec, number: int) -> _thermocline.Trace:
        """Give a trace; whoever comes first compiles it, and the others wait."""
        with self.lock:
            key = (spec, number)
            if key not in self.traces:
                self.traces[key] = self.located(spec, number).open(number)
                self.compiled += 1
            self.traces.move_to_end(key)
            while len(self.traces) > TRACES_PER_WORKER:
                self.traces.popitem(last=False)
            return self.traces[key]


_worker: _Worker | None = None
_worker_lock = threading.Lock()


def _this_worker() -> _Worker:
    global _worker  # noqa: PLW0603, one for each process
    with _worker_lock:
        if _worker is None:
            _worker = _Worker()
        return _worker


def _forget() -> None:
    """Give up what this process keeps."""
    global _worker
    with _worker_lock:
        kept, _worker = _worker, None
    if kept is not None:
        kept.folder.cleanup()


def _hash_on_worker(spec: _Spec, trace: int) -> str | ThermoclineError:
    # An error of ours is an answer: it would be the same on every worker.
    try:
        return _this_worker().sha256(spec, trace)
    except ThermoclineError as error:
        return error


def _run_on_worker(
    spec: _Spec, trace: int, point: int, key: str, sha256: str
) -> pa.RecordBatch | ThermoclineError:
    try:
        compiled = _this_worker().trace(spec, trace)
        return _batch(point, spec.sweep().run_point(point, compiled, key, sha256))
    except ThermoclineError as error:
        return error


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


def _on_cluster(
    client: Client,
    spec: _Spec,
    sweep: _thermocline.Sweep,
    target: str,
    on_batch: Callable[[pa.RecordBatch], object] | None,
    watch: Callable[[int, int, int], object] | None,
) -> Any:
    """Run the points that are not finished on a cluster, and write the output here."""
    tell = watch or (lambda _done, _total, _accesses: None)
    traces = range(len(sweep.traces()))
    hashing = [(_hash_on_worker, (spec, trace)) for trace in traces]
    hashes = dict(_answers(client, hashing))
    running = sweep.begin(target, [hashes[trace] for trace in traces])
    trace_of = sweep.points()
    missing = running.missing(sweep)
    asked = [
        (_run_on_worker, (spec, trace_of[point], point, key, sha256))
        for point, key, sha256 in missing
    ]
    total = len(trace_of)
    done, accesses = total - len(missing), 0
    tell(done, total, accesses)
    rows = []
    try:
        for _, batch in _answers(client, asked):
            row = batch.column("result")[0].as_py()
            running.keep([row])
            rows.append(row)
            done += 1
            accesses += batch.column("accesses")[0].as_py()
            if on_batch is not None:
                on_batch(batch)
            tell(done, total, accesses)
    finally:
        client.run(_forget, on_error="ignore")
    return json.loads(running.finish(rows))


def _answers(
    client: Client,
    asked: list[tuple[Callable[..., Any], tuple[Any, ...]]],
) -> Iterator[tuple[int, Any]]:
    """Ask workers, and give each answer with its place as it comes.

    Raises
    ------
    ThermoclineError
        The first error of ours that a worker answers with; what is not asked yet is given up.
    ClusterError
        If workers die of a question, or fail on it again and again.
    """
    from distributed import as_completed  # noqa: PLC0415, it is optional

    futures = {
        client.submit(function, *arguments, pure=False, retries=RETRIES, priority=-place): place
        for place, (function, arguments) in enumerate(asked)
    }
    try:
        for future in as_completed(futures):
            place = futures[future]
            try:
                # A result that is lost with its worker is asked for again.
                answer = future.result()
            except ThermoclineError:
                raise
            except Exception as error:
                message = f"workers fail on {asked[place][1][1:]}: {error!r}"
                raise ClusterError(message) from error
            if isinstance(answer, ThermoclineError):
                raise answer
            yield place, answer
            future.release()
    finally:
        client.cancel(list(futures))
