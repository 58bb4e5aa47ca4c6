"""Sweeps: traces by policies by sizes by parameters, here or on a Dask cluster."""

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

import pyarrow.parquet as pq

from thermocline import _cluster, _remote, _thermocline
from thermocline._progress import Progress, watching
from thermocline.errors import ConfigurationError, FileError, TraceError
from thermocline.policy import Given, separate
from thermocline.results import SweepResult

if TYPE_CHECKING:
    from os import PathLike

    import pyarrow as pa
    from distributed import Client

__all__ = ["sweep"]


def sweep(
    spec: str | PathLike[str] | Mapping[str, Any],
    output: str | PathLike[str] | None = None,
    *,
    threads: int | None = None,
    client: Client | None = None,
    on_batch: Callable[[pa.RecordBatch], object] | None = None,
    patience_s: float = 60.0,
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
    patience_s : float, optional
        How long a cluster may be without any worker before the sweep ends, >= 0, unit: s;
        ``math.inf`` where workers come when a queue lets them.
    progress : bool or callable, optional
        Whether a bar is shown, or what is told how far it is; on a terminal if not given.

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
    if threads is not None and not 1 <= threads <= 4096:
        message = f"threads={threads}: it takes a whole number from 1 to 4096"
        raise ConfigurationError(message)
    if client is None and on_batch is not None:
        message = "`on_batch` is told of what comes from a cluster: give a `client`"
        raise ConfigurationError(message)
    if client is not None and threads is not None:
        message = "a cluster has the threads of its workers: leave `threads` or `client` out"
        raise ConfigurationError(message)
    if client is not None and not hasattr(client, "submit"):
        message = f"client={client!r}: it takes a `distributed.Client`"
        raise TypeError(message)
    if not patience_s >= 0:
        message = f"patience_s={patience_s}: it takes a number of at least 0"
        raise ConfigurationError(message)
    _thermocline.Sweep.check_output(target)
    with watching(progress, "points") as watch, _named(spec):
        if client is None:
            with tempfile.TemporaryDirectory(prefix="thermocline-") as folder:
                here = parsed.with_paths([_here(trace, folder) for trace in parsed.traces()])
                figures = json.loads(here.run(target, threads or 0, watch))
        else:
            cluster = _cluster.Cluster(client, patience_s)
            figures = _on_cluster(cluster, source, parsed, target, on_batch, watch)
    return SweepResult(figures, pq.read_table(target))


def _read(
    spec: str | PathLike[str] | Mapping[str, Any],
    output: str | PathLike[str] | None,
) -> tuple[_cluster.Spec, str]:
    """Give the text of a sweep, the folder that its paths are relative to, and the output."""
    if isinstance(spec, Mapping):
        if output is None:
            message = "a sweep that is no file has no name: give an `output`"
            raise ConfigurationError(message)
        names: object = spec.get("policies")
        brought: list[Given] = []
        if not isinstance(names, str | None):
            tiers = spec.get("tier")
            count = len(tiers) if isinstance(tiers, Sequence) else 1
            names, brought = separate(names, count)
        plain = _plain({**spec, "policies": names} if brought else spec, "")
        text = _thermocline.Sweep.to_toml(json.dumps(plain))
        source = _cluster.Spec(text, str(Path.cwd()), is_mapping=True, policies=brought)
        return source, os.fspath(output)
    path = Path(spec)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"in `{path}`: {error}"
        raise FileError(message) from None
    target = path.with_suffix(".parquet") if output is None else output
    return _cluster.Spec(
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
        message = f"key `{key}`: {value} cannot be: it takes numbers of 64 bits"
        raise ConfigurationError(message)
    if isinstance(value, Real) and math.isfinite(value):
        return int(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [_plain(one, f"{key}[{place}]") for place, one in enumerate(value)]
    kinds = "it takes text, finite numbers, lists or mappings"
    remedy = "leave the key out" if value is None else kinds
    message = f"key `{key}`: {value!r} cannot be: {remedy}"
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


def _here(trace: tuple[str, str], folder: str) -> str:
    """Give the path of a trace, fetched if its name is a URL."""
    name, path = trace
    return _remote.fetch(name, folder) if _remote.is_url(name) else path


def _on_cluster(
    cluster: _cluster.Cluster,
    spec: _cluster.Spec,
    sweep: _thermocline.Sweep,
    target: str,
    on_batch: Callable[[pa.RecordBatch], object] | None,
    watch: Callable[[int, int, int], object] | None,
) -> Any:
    """Run the points that are not finished on a cluster, and write the output here."""
    tell = watch or (lambda _done, _total, _accesses: None)
    names = [f"trace `{name}`" for name, _ in sweep.traces()]
    hashing = [
        _cluster.Question(name, _cluster.hash_trace, (spec, trace))
        for trace, name in enumerate(names)
    ]
    hashes = dict(cluster.answers(hashing))
    running = sweep.begin(target, [hashes[trace] for trace in range(len(names))])
    points = sweep.points()
    missing = running.missing(sweep)
    asked = []
    for point, key, sha256 in missing:
        trace, name = points[point]
        arguments = (spec, trace, point, key, sha256)
        asked.append(_cluster.Question(name, _cluster.run_point, arguments))
    total = len(points)
    done, accesses = total - len(missing), 0
    tell(done, total, accesses)
    rows = []
    try:
        for _, batch in cluster.answers(asked):
            row = batch.column("result")[0].as_py()
            running.keep([row])
            rows.append(row)
            done += 1
            accesses += batch.column("accesses")[0].as_py()
            if on_batch is not None:
                on_batch(batch)
            tell(done, total, accesses)
        return json.loads(running.finish(rows))
    finally:
        # An error's traceback, which a notebook keeps, would keep the output for itself.
        running.close()
        cluster.forget()
