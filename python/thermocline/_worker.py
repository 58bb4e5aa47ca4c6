"""State and messages of the processes that run points."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import tempfile
import threading
import time
from collections import OrderedDict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from thermocline import _remote, _thermocline
from thermocline.errors import ClusterError, FileError, ThermoclineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike

    from thermocline.policy import Given

__all__: list[str] = []

VERSION = version("thermocline")
"""Workers must have the same, so that they find the same."""

TRACES_PER_WORKER = 4
"""Number of traces that a process has open; the points of one run one after the other."""

LOADED_PER_WORKER = 4
"""Number of specifications that a process keeps."""


class Node(NamedTuple):
    """The folder of compiled traces that the processes of a machine share."""

    folder: str | None
    """A path of each machine; a folder of the user among the temporary files if not given."""
    bytes_max: int

    @classmethod
    def of(cls, folder: str | PathLike[str] | None, size: str | int) -> Node:
        """Give what the arguments `cache_folder` and `cache_size` mean."""
        path = None if folder is None else os.path.abspath(folder)  # noqa: PTH100, no Path
        return cls(path, _thermocline.bytes_of(str(size)))

    def path(self) -> str:
        """Give the folder, which nobody else can write to."""
        if self.folder is not None:
            return self.folder
        user = os.getuid() if hasattr(os, "getuid") else "user"
        path = Path(tempfile.gettempdir()) / f"thermocline-{user}"
        path.mkdir(mode=0o700, exist_ok=True)
        if hasattr(os, "getuid") and path.stat().st_uid != user:
            message = f"`{path}` belongs to another user: pass a folder as `cache_folder`"
            raise FileError(message)
        return str(path)


class Specification(Protocol):
    """Message that workers get once for each batch, and each worker parses once."""

    def load(self) -> Any:
        """Understand it."""

    @property
    def is_of_thread(self) -> bool:
        """Return True if two threads must not share its parsed form."""


class Call:
    """A call that is made where it is unpickled.

    Dask unpickles the functions that a worker is sent before they are tasks. There an error, as of
    a worker that has no Thermocline, is nobody's: expected the worker from the cluster, and the
    question waits for ever. So a worker is sent bytes, and its task is to unpickle them.
    """

    def __init__(self, function: Callable[..., Any], blob: bytes, jobs: Sequence[Any]) -> None:
        self.arguments = (VERSION, function, blob, jobs)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _answer, self.arguments


class Answer(NamedTuple):
    """Answer of a worker: a result for each job, or for those before one that failed."""

    results: list[Any]
    error: ThermoclineError | None
    seconds: float
    """Time of the jobs, without the work that is done once."""


def _answer(wanted: str, function: Callable[..., Answer], blob: bytes, jobs: Any) -> Answer:
    """Answer on a worker. An error of ours is an answer: it would be the same on every worker."""
    try:
        if wanted != VERSION:
            message = (
                f"a worker has thermocline {VERSION}, and this program has {wanted}: install the "
                "same version"
            )
            raise ClusterError(message)
        return function(this_worker().loaded(blob), jobs)
    except ThermoclineError as error:
        return Answer([], error, 0.0)


class _Worker:
    """State of a process between batches: the last specifications and traces used."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.specifications: OrderedDict[tuple[bytes, int], Any] = OrderedDict()
        self.traces: OrderedDict[tuple[Any, ...], _thermocline.Trace] = OrderedDict()
        self.trace_locks: dict[tuple[Any, ...], threading.Lock] = {}
        self.parsed = 0
        self.compiled = 0

    def loaded(self, blob: bytes) -> Any:
        """Give a specification, which is understood once."""
        digest = hashlib.sha256(blob).digest()
        with self.lock:
            for key in ((digest, 0), (digest, threading.get_ident())):
                if key in self.specifications:
                    self.specifications.move_to_end(key)
                    return self.specifications[key]
            specification: Specification = pickle.loads(blob)
            loaded = specification.load()
            self.parsed += 1
            key = (digest, threading.get_ident() if specification.is_of_thread else 0)
            self.specifications[key] = loaded
            while len(self.specifications) > LOADED_PER_WORKER:
                self.specifications.popitem(last=False)
            return loaded

    def drop(self, loaded: Any) -> None:
        """Give up a specification whose runs were stopped."""
        with self.lock:
            for key in [key for key, one in self.specifications.items() if one is loaded]:
                del self.specifications[key]

    def trace(
        self, key: tuple[Any, ...], opening: Callable[[], tuple[_thermocline.Trace, bool]]
    ) -> _thermocline.Trace:
        """Give a trace; whoever comes first opens it, and the others wait."""
        with self.lock:
            one = self.trace_locks.setdefault(key, threading.Lock())
        with one:
            with self.lock:
                if key in self.traces:
                    self.traces.move_to_end(key)
                    return self.traces[key]
            trace, is_new = opening()
            with self.lock:
                self.compiled += is_new
                self.traces[key] = trace
                while len(self.traces) > TRACES_PER_WORKER:
                    self.traces.popitem(last=False)
            return trace


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
    global _worker  # noqa: PLW0603, one for each process
    with _worker_lock:
        _worker = None


class Spec(NamedTuple):
    """A sweep as it is sent to workers."""

    text: str
    folder: str
    is_mapping: bool
    policies: list[Given]
    storage_options: Mapping[str, Any] | None = None
    node: Node = Node(None, 0)

    @property
    def is_of_thread(self) -> bool:
        return bool(self.policies)

    def sweep(self) -> _thermocline.Sweep:
        return _thermocline.Sweep(self.text, self.folder, self.is_mapping, self.policies)

    def load(self) -> LoadedSweep:
        return LoadedSweep(self, self.sweep())


class LoadedSweep:
    """A sweep on a worker."""

    def __init__(self, spec: Spec, sweep: _thermocline.Sweep) -> None:
        self.spec = spec
        self.sweep = sweep
        self.names = [name for name, _ in sweep.traces()]

    def sha256(self, trace: int) -> str:
        """Hash the file of a trace."""
        name = self.names[trace]
        if _remote.is_url(name):
            return _remote.sha256(name, self.spec.storage_options)
        return self.sweep.sha256(trace)

    def trace(self, trace: int, sha256: str) -> _thermocline.Trace:
        """Give a trace, which is compiled once by all processes of this machine."""
        name, spec = self.names[trace], self.spec
        folder = spec.node.path()

        def opening() -> tuple[_thermocline.Trace, bool]:
            with contextlib.ExitStack() as stack:

                def fetch() -> str:
                    place = tempfile.TemporaryDirectory(prefix="thermocline-")
                    return _remote.fetch(name, stack.enter_context(place), spec.storage_options)

                fetching = fetch if _remote.is_url(name) else None
                return self.sweep.open_shared(trace, sha256, folder, spec.node.bytes_max, fetching)

        return this_worker().trace((spec.text, spec.folder, trace, sha256, folder), opening)


def hash_traces(loaded: LoadedSweep, jobs: Sequence[int]) -> Answer:
    """Hash the files of traces."""
    return Answer([loaded.sha256(trace) for trace in jobs], None, 0.0)


def run_points(loaded: LoadedSweep, jobs: Sequence[tuple[int, str, int, str]]) -> Answer:
    """Run points of one trace: each has its number, its key, the trace, and the trace's SHA-256."""
    _, _, number, sha256 = jobs[0]
    trace = loaded.trace(number, sha256)
    begin = time.perf_counter()
    points = [(point, key) for point, key, _, _ in jobs]
    rows, error = loaded.sweep.run_points(points, trace, sha256)
    if error is not None:
        this_worker().drop(loaded)
        if not isinstance(error, ThermoclineError):
            raise error
    return Answer(rows, error, time.perf_counter() - begin)


class CorpusSpec(NamedTuple):
    """A run over a corpus as it is sent to workers."""

    text: str
    """The manifest."""
    path: str
    root: str | None
    folder: str
    """Folder to which the paths of devices are relative."""
    request: str
    policies: list[Given]
    compiled: str | None
    node: Node

    @property
    def is_of_thread(self) -> bool:
        return bool(self.policies)

    def corpus(self) -> _thermocline.Corpus:
        return _thermocline.Corpus(
            self.text, self.path, self.root, self.folder, self.request, self.policies
        )

    def load(self) -> LoadedCorpus:
        return LoadedCorpus(self, self.corpus())


class LoadedCorpus:
    """A corpus on a worker."""

    def __init__(self, spec: CorpusSpec, corpus: _thermocline.Corpus) -> None:
        self.spec = spec
        self.corpus = corpus
        self.digest = hashlib.sha256(
            repr((spec.text, spec.path, spec.root, spec.request)).encode()
        ).digest()

    def trace(self, trace: int) -> _thermocline.Trace:
        """Give a trace, which is compiled once by all processes of this machine."""
        spec = self.spec
        folder = spec.node.path()

        def opening() -> tuple[_thermocline.Trace, bool]:
            return self.corpus.open_shared(trace, spec.compiled, folder, spec.node.bytes_max)

        return this_worker().trace((self.digest, trace, folder), opening)


def run_corpus_points(loaded: LoadedCorpus, jobs: Sequence[tuple[int, list[int]]]) -> Answer:
    """Run points of one trace: each job has the trace and some points."""
    trace = loaded.trace(jobs[0][0])
    begin = time.perf_counter()
    results: list[str] = []
    error: ThermoclineError | None = None
    try:
        for number, points in jobs:
            results.append(loaded.corpus.run_points(number, points, trace))
    except BaseException as raised:
        # Its runs are stopped.
        this_worker().drop(loaded)
        if not isinstance(raised, ThermoclineError):
            raise
        error = raised
    return Answer(results, error, time.perf_counter() - begin)
