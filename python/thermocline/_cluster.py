"""The points of a sweep on the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pickle
import queue
import tempfile
import threading
import time
import uuid
from collections import OrderedDict
from concurrent.futures import CancelledError
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from thermocline import _remote, _thermocline
from thermocline.errors import ClusterError, ThermoclineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distributed import Client, Future

    from thermocline.policy import Given

__all__: list[str] = []

VERSION = version("thermocline")
"""Workers must have the same, so that they find the same."""

RETRIES = 3
"""How often a question is asked again after an error that is not ours, as of a network."""

TRACES_PER_WORKER = 4
"""How many traces a worker keeps; the points of one are run one after the other."""

LOOK_S = 1.0
"""Between two looks at whether there is a worker, while nothing comes."""

KEPT = "what is finished is kept: the same sweep goes on from there"


class Spec(NamedTuple):
    """A sweep as it is sent to workers."""

    text: str
    folder: str
    is_mapping: bool
    policies: list[Given]

    def sweep(self) -> _thermocline.Sweep:
        return _thermocline.Sweep(*self)


class Question(NamedTuple):
    """What a worker is asked, and how messages name it."""

    what: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class _Call:
    """A call that is made where it is unpickled.

    Dask unpickles the functions that a worker is sent before they are tasks. There an error, as of
    a worker that has no Thermocline, is nobody's: it takes the worker from the cluster, and the
    question waits for ever. So a worker is sent bytes, and its task is to unpickle them.
    """

    def __init__(self, question: Question) -> None:
        self.question = question

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _answer, (VERSION, self.question.function, self.question.arguments)


def _answer(wanted: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Answer on a worker. An error of ours is an answer: it would be the same on every worker."""
    try:
        if wanted != VERSION:
            message = f"a worker has thermocline {VERSION}, and here is {wanted}: install the same"
            raise ClusterError(message)
        return function(*arguments)
    except ThermoclineError as error:
        return error


class Cluster:
    """Workers that are asked, with some patience for times when there are none."""

    def __init__(self, client: Client, patience_s: float) -> None:
        self.client = client
        self.patience_s = patience_s
        self.alone_since: float | None = None

    def answers(self, asked: list[Question]) -> Iterator[tuple[int, Any]]:
        """Ask workers, and give each answer with its place as it comes.

        Raises
        ------
        ThermoclineError
            The first error of ours that a worker answers with; what is not asked yet is given up.
        ClusterError
            If workers die of a question, or fail on it again and again, or there are none.
        """
        name = f"thermocline-{uuid.uuid4().hex}"
        finished: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        places: dict[Future[Any], int] = {}
        try:
            for place, question in enumerate(asked):
                future = self._submit(question, f"{name}-{place}", -place)
                places[future] = place
                future.add_done_callback(finished.put)
            for _ in asked:
                future = self._next(finished)
                place = places[future]
                yield place, self._result(future, asked[place].what)
                future.release()
        finally:
            # Where the scheduler is gone there is nothing to cancel.
            with contextlib.suppress(Exception):
                self.client.cancel(list(places))

    def forget(self) -> None:
        """Let all workers give up what they keep; those that are gone have."""
        with contextlib.suppress(Exception):
            self.client.run(forget, on_error="ignore")

    def _submit(self, question: Question, key: str, priority: int) -> Future[Any]:
        import cloudpickle  # noqa: PLC0415, it comes with `distributed`

        call = cloudpickle.dumps(_Call(question))
        return self.client.submit(pickle.loads, call, key=key, retries=RETRIES, priority=priority)

    def _next(self, finished: queue.SimpleQueue[Future[Any]]) -> Future[Any]:
        while True:
            with contextlib.suppress(queue.Empty):
                future = finished.get(timeout=LOOK_S)
                self.alone_since = None
                return future
            self._look()

    def _result(self, future: Future[Any], what: str) -> Any:
        try:
            answer = self._fetched(future)
        except ClusterError:
            raise
        except Exception as error:
            message = f"{what}: {_why(error)}; {KEPT}"
            raise ClusterError(message) from error
        if isinstance(answer, ThermoclineError):
            raise answer
        return answer

    def _fetched(self, future: Future[Any]) -> Any:
        """Fetch a result; one that is lost with its worker is found again by another one."""
        while True:
            try:
                return future.result(timeout=LOOK_S)
            except (TimeoutError, asyncio.TimeoutError):
                # That of the task, or else that of fetching.
                if future.status == "error":
                    raise
            self._look()

    def _look(self) -> None:
        """See whether there is a worker, or has been one lately."""
        try:
            workers = len(self.client.nthreads())
        except Exception as error:
            message = f"the scheduler of the cluster does not answer ({error!r}); {KEPT}"
            raise ClusterError(message) from error
        now = time.monotonic()
        if workers or self.alone_since is None:
            self.alone_since = None if workers else now
        if self.alone_since is not None and now - self.alone_since >= self.patience_s:
            message = (
                f"the cluster has had no worker for {self.patience_s:g} s: see why in the logs of "
                "its workers and start some, or, if they only take long to come, wait for them "
                f"with `client.wait_for_workers(1)` or give a longer `patience_s`; {KEPT}"
            )
            raise ClusterError(message)


def _why(error: Exception) -> str:
    """Say why a question has no answer, and what helps."""
    from distributed import KilledWorker  # noqa: PLC0415, it is optional

    if isinstance(error, KilledWorker):
        return (
            f"the workers that took it died, {error.allowed_failures + 1} of them: look at their "
            "logs; often they have too little memory, and fewer threads per worker help"
        )
    if isinstance(error, CancelledError):
        return (
            "the cluster gave it up: its scheduler is gone, or somebody restarted or cancelled it"
        )
    if isinstance(error, ImportError):
        return (
            f"workers lack something ({error}): install on all of them what is installed here, the "
            "package with its extra `cluster`"
        )
    return f"workers fail on it, {RETRIES + 1} times over: {error!r}"


class _Worker:
    """What a worker process keeps between points: its traces, the last ones used."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.folder = tempfile.TemporaryDirectory(prefix="thermocline-worker-")
        self.files: dict[str, str] = {}
        self.traces: OrderedDict[tuple[str, str, int], _thermocline.Trace] = OrderedDict()
        self.compiled = 0

    def located(self, spec: Spec, trace: int) -> _thermocline.Sweep:
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

    def sha256(self, spec: Spec, trace: int) -> str:
        with self.lock:
            return self.located(spec, trace).sha256(trace)

    def trace(self, spec: Spec, number: int) -> _thermocline.Trace:
        """Give a trace; whoever comes first compiles it, and the others wait."""
        with self.lock:
            key = (spec.text, spec.folder, number)
            if key not in self.traces:
                self.traces[key] = self.located(spec, number).open(number)
                self.compiled += 1
            self.traces.move_to_end(key)
            while len(self.traces) > TRACES_PER_WORKER:
                self.traces.popitem(last=False)
            return self.traces[key]


_worker: _Worker | None = None
_worker_lock = threading.Lock()


def this_worker() -> _Worker:
    """Give what this process keeps."""
    global _worker  # noqa: PLW0603, one for each process
    with _worker_lock:
        if _worker is None:
            _worker = _Worker()
        return _worker


def forget() -> None:
    """Give up what this process keeps."""
    global _worker
    with _worker_lock:
        kept, _worker = _worker, None
    if kept is not None:
        kept.folder.cleanup()


def hash_trace(spec: Spec, trace: int) -> str:
    """Hash the file of a trace, on a worker."""
    return this_worker().sha256(spec, trace)


def run_point(spec: Spec, trace: int, point: int, key: str, sha256: str) -> pa.RecordBatch:
    """Run a point, on a worker."""
    compiled = this_worker().trace(spec, trace)
    return _batch(point, spec.sweep().run_point(point, compiled, key, sha256))


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
