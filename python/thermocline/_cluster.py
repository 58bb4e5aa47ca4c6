"""Jobs on the workers of a Dask cluster, or of an executor.

Jobs that belong to one group, such as the points of a trace, go to workers in batches. A batch
lasts about a quarter of a second, so that small jobs cost little to schedule. The workers of a
machine get the groups that they have begun before they begin others, so that few machines compile
each trace; when no group is left to begin, they help others with theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import pickle
import queue
import time
import uuid
from collections import OrderedDict, deque
from concurrent.futures import BrokenExecutor, CancelledError
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from thermocline._worker import Answer, Call, forget
from thermocline.errors import ClusterError, ConfigurationError, ThermoclineError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from distributed import Client

__all__: list[str] = []

RETRIES = 3
"""Number of times that a batch is tried again after an error of others, as of a network."""

BATCH_S = 0.25
"""Intended duration of a batch, estimated from the jobs before it, in seconds."""

LEAST_BATCH_S = 0.02
"""Minimum duration of a batch, if jobs are left: scheduling it costs less."""

BATCH_JOBS_MAX = 1024
"""Maximum number of jobs in a batch."""

LOOK_S = 1.0
"""Between two looks at which workers there are."""

KEPT = "what is finished is kept: the same run goes on from there"


class Job(NamedTuple):
    """A job: which group it belongs to, how messages name it, and what the worker is given."""

    group: Hashable
    what: str
    given: Any


class Future(Protocol):
    """State of futures."""

    def add_done_callback(self, function: Callable[[Any], object], /) -> object: ...


class Failure(NamedTuple):
    """Why a batch has no answer."""

    why: str
    is_of_jobs: bool
    """Return True if one of the jobs may be to blame, so that it helps to run each alone."""


class Workers(Protocol):
    """The small interface behind which the processes are that run jobs."""

    retries: bool
    """Return True if they retry by themselves after an error."""

    def places(self) -> dict[str, int]:
        """Give each worker that there is now, and how many jobs it runs at once."""

    def node(self, place: str) -> str:
        """Give the machine of a worker."""

    def submit(self, call: bytes, place: str) -> Future:
        """Unpickle the call, on the machine of that worker if it can be; anywhere without one."""

    def result(self, future: Any, look: Callable[[], None]) -> Any:
        """Give the result of a future that is done; `look` may be called while that takes long."""

    def failure(self, error: Exception) -> Failure:
        """Say why a future has failed."""

    def look(self) -> None:
        """See whether there are workers, while nothing comes."""

    def cancel(self, futures: list[Any]) -> None:
        """Give up futures."""

    def forget(self) -> None:
        """Let workers give up what they keep."""


def check(threads: int | None, cluster: Any, patience_s: float) -> None:
    """Refuse arguments about where points run that cannot be, or do not go together."""
    if threads is not None and not 1 <= threads <= 4096:
        message = f"threads={threads}: expected a whole number from 1 to 4096"
        raise ConfigurationError(message)
    if cluster is not None and threads is not None:
        message = "a cluster uses its workers' threads: omit `threads` or `cluster`"
        raise ConfigurationError(message)
    if not patience_s >= 0:
        message = f"patience_s={patience_s}: expected a number of at least 0"
        raise ConfigurationError(message)


def workers_of(cluster: Any, patience_s: float) -> Workers:
    """Give the workers of a Dask client or of an executor."""
    if hasattr(cluster, "nthreads") and hasattr(cluster, "scheduler"):
        return _Dask(cluster, patience_s)
    if hasattr(cluster, "submit"):
        return _Executor(cluster)
    message = (
        f"cluster={cluster!r}: expected a `distributed.Client`, or an executor as those of "
        "`concurrent.futures`"
    )
    raise TypeError(message)


class _Dask:
    """The workers of a Dask cluster, with some patience for times when there are none."""

    retries = True

    def __init__(self, client: Client, patience_s: float) -> None:
        self.client = client
        self.patience_s = patience_s
        self.alone_since: float | None = None
        self.name = f"thermocline-{uuid.uuid4().hex}"
        self.submitted = 0

    def places(self) -> dict[str, int]:
        try:
            return dict(self.client.nthreads())
        except Exception as error:
            message = f"the scheduler of the cluster does not answer ({error!r}); {KEPT}"
            raise ClusterError(message) from error

    def node(self, place: str) -> str:
        with contextlib.suppress(ValueError):
            return urlsplit(place).hostname or place
        return place

    def submit(self, call: bytes, place: str) -> Future:
        self.submitted += 1
        # Of the machine, not the worker: a task that waits for a worker that is gone, and whose
        # machine has a new one, would wait for ever.
        options: dict[str, Any] = {}
        if place and self.node(place) != place:
            options = {"workers": [self.node(place)], "allow_other_workers": True}
        future: Future = self.client.submit(
            pickle.loads,
            call,
            key=f"{self.name}-{self.submitted}",
            retries=RETRIES,
            priority=-self.submitted,
            **options,
        )
        return future

    def result(self, future: Any, look: Callable[[], None]) -> Any:
        """Fetch a result; one that is lost with its worker is found again by another one."""
        while True:
            try:
                found = future.result(timeout=LOOK_S)
            except (TimeoutError, asyncio.TimeoutError):
                # That of the task, or else that of fetching.
                if future.status == "error":
                    raise
            else:
                self.alone_since = None
                future.release()
                return found
            look()

    def failure(self, error: Exception) -> Failure:
        from distributed import KilledWorker  # noqa: PLC0415, it is optional

        if isinstance(error, KilledWorker):
            why = (
                f"the workers that took it died, {error.allowed_failures + 1} of them: look at "
                "their logs; often they have too little memory, and fewer threads per worker help"
            )
            return Failure(why, is_of_jobs=True)
        if isinstance(error, CancelledError):
            why = (
                "the cluster gave it up: its scheduler is gone, or somebody restarted or "
                "cancelled it"
            )
            return Failure(why, is_of_jobs=False)
        return _failure(error)

    def look(self) -> None:
        workers = len(self.places())
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

    def cancel(self, futures: list[Any]) -> None:
        # Where the scheduler is gone there is nothing to cancel.
        with contextlib.suppress(Exception):
            self.client.cancel(futures)

    def forget(self) -> None:
        # Workers that are gone have forgotten.
        with contextlib.suppress(Exception):
            self.client.run(forget, on_error="ignore")


class _Executor:
    """The workers of an executor: how many there are, and no more, is known of them."""

    retries = False

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        workers = getattr(executor, "_max_workers", None)
        self.workers = workers if isinstance(workers, int) and workers > 0 else os.cpu_count() or 1

    def places(self) -> dict[str, int]:
        return {"": self.workers}

    def node(self, place: str) -> str:
        return place

    def submit(self, call: bytes, place: str) -> Future:  # noqa: ARG002, there is one place
        try:
            future: Future = self.executor.submit(pickle.loads, call)
        except RuntimeError as error:
            raise ClusterError(f"the executor takes no jobs ({error}); {KEPT}") from error
        return future

    def result(self, future: Any, look: Callable[[], None]) -> Any:  # noqa: ARG002, it is here
        return future.result()

    def failure(self, error: Exception) -> Failure:
        if isinstance(error, BrokenExecutor):
            why = (
                "a process of the executor died: often there is too little memory, and fewer "
                "processes help; an executor does not start others, a Dask cluster does"
            )
            return Failure(why, is_of_jobs=False)
        if isinstance(error, CancelledError):
            return Failure("the executor was shut down, or gave it up", is_of_jobs=False)
        return _failure(error)

    def look(self) -> None:
        pass

    def cancel(self, futures: list[Any]) -> None:
        for future in futures:
            with contextlib.suppress(Exception):
                future.cancel()

    def forget(self) -> None:
        """Leave it: nobody can tell all workers, and what they keep is bounded."""


def _failure(error: Exception) -> Failure:
    """Say what has failed that may fail on any kind of workers."""
    if isinstance(error, ImportError):
        why = (
            f"workers lack something ({error}): install on all of them what is installed here, the "
            "package with its extra `cluster`"
        )
        return Failure(why, is_of_jobs=False)
    return Failure(f"workers fail on it, {RETRIES + 1} times over: {error!r}", is_of_jobs=True)


class _Batch(NamedTuple):
    """Jobs that a worker is given together, and where they were sent."""

    group: Hashable
    jobs: list[int]
    place: str
    attempts: int = 1


class Cluster:
    """Workers that are asked about one specification."""

    def __init__(self, workers: Workers, blob: bytes) -> None:
        self.workers = workers
        self.blob = blob
        self.places: dict[str, int] = {}
        self.looked_at = -math.inf

    def answers(
        self, function: Callable[..., Answer], jobs: Sequence[Job]
    ) -> Iterator[list[tuple[int, Any]]]:
        """Ask workers, and give the answers of each batch with their places, as they come.

        Raises
        ------
        ThermoclineError
            The first error of ours that a worker answers with; what is not asked yet is given up.
        ClusterError
            If workers die of a job, or fail on it again and again, or there are none.
        """
        asking = _Asking(self, function, jobs)
        try:
            while (batch := asking.next()) is not None:
                yield from batch
        finally:
            self.workers.cancel(list(asking.flying))

    def forget(self) -> None:
        """Let all workers give up what they keep."""
        self.workers.forget()

    def refresh(self) -> None:
        """See which workers there are, now and then."""
        now = time.monotonic()
        if now - self.looked_at >= LOOK_S or not self.places:
            self.places = self.workers.places()
            self.looked_at = now


class _Asking:
    """One question to a cluster: which jobs wait, and which are under way."""

    def __init__(
        self, cluster: Cluster, function: Callable[..., Answer], jobs: Sequence[Job]
    ) -> None:
        self.cluster = cluster
        self.function = function
        self.jobs = jobs
        self.left = len(jobs)
        self.waiting: OrderedDict[Hashable, deque[int]] = OrderedDict()
        for place, job in enumerate(jobs):
            self.waiting.setdefault(job.group, deque()).append(place)
        self.fresh: OrderedDict[Hashable, None] = OrderedDict.fromkeys(self.waiting)
        """The groups that no machine has begun."""
        self.ready: dict[str, OrderedDict[Hashable, None]] = {}
        """The groups of which each machine has answered something."""
        self.last: dict[str, Hashable] = {}
        """The last group of each worker."""
        self.alone: deque[_Batch] = deque()
        """Batches that failed: they are asked again, each job for itself."""
        self.seconds: dict[Hashable, float] = {}
        self.flying: dict[Any, _Batch] = {}
        self.at_place: dict[str, int] = {}
        self.finished: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def next(self) -> Iterator[list[tuple[int, Any]]] | None:
        """Send what can be sent, and give what comes next; none after all."""
        self._fill()
        if not self.flying:
            return None
        future = self._arrived()
        batch = self.flying.pop(future)
        self.at_place[batch.place] -= 1
        return self._taken(future, batch)

    def _arrived(self) -> Any:
        while True:
            with contextlib.suppress(queue.Empty):
                future = self.finished.get(timeout=LOOK_S)
                if future in self.flying:
                    return future
                continue
            self._look()

    def _look(self) -> None:
        """See what is to be done while nothing comes."""
        cluster = self.cluster
        cluster.workers.look()
        self._fill()
        nodes = {cluster.workers.node(place) for place in cluster.places}
        for future, batch in list(self.flying.items()):
            if batch.place and nodes and cluster.workers.node(batch.place) not in nodes:
                # Its machine is gone: any other will do.
                del self.flying[future]
                self.at_place[batch.place] -= 1
                cluster.workers.cancel([future])
                self._send(batch._replace(place=""))

    def _taken(self, future: Any, batch: _Batch) -> Iterator[list[tuple[int, Any]]]:
        workers = self.cluster.workers
        try:
            answer = workers.result(future, workers.look)
        except ClusterError:
            raise
        except Exception as error:
            self._failed(batch, error)
            return
        self.ready.setdefault(workers.node(batch.place), OrderedDict())[batch.group] = None
        results, raised, seconds = answer
        if results:
            each = seconds / len(results)
            before = self.seconds.get(batch.group, each)
            self.seconds[batch.group] = (before + each) / 2
            self.left -= len(results)
            yield list(zip(batch.jobs, results, strict=False))
        if isinstance(raised, ThermoclineError):
            raise raised

    def _failed(self, batch: _Batch, error: Exception) -> None:
        """Ask again, each job for itself, or say that it is in vain."""
        why, is_of_jobs = self.cluster.workers.failure(error)
        if is_of_jobs and len(batch.jobs) > 1:
            self.alone.extend(batch._replace(jobs=[job]) for job in batch.jobs)
            return
        if is_of_jobs and not self.cluster.workers.retries and batch.attempts <= RETRIES:
            self.alone.append(batch._replace(attempts=batch.attempts + 1))
            return
        message = f"{self.jobs[batch.jobs[0]].what}: {why}; {KEPT}"
        raise ClusterError(message) from error

    def _fill(self) -> None:
        """Send batches as long as there are workers that have room."""
        cluster = self.cluster
        cluster.refresh()
        # Without any worker the first batches wait in the scheduler, whose patience counts.
        places = cluster.places or {"": 1}
        has_sent = True
        while has_sent and (self.waiting or self.alone):
            has_sent = False
            for place, threads in places.items():
                batch = self._batch(place, threads, sum(places.values()))
                if batch is not None:
                    self._send(batch)
                    has_sent = True

    def _batch(self, place: str, threads: int, all_threads: int) -> _Batch | None:
        """Give the next batch of a worker; none if it has enough."""
        flying = self.at_place.get(place, 0)
        if flying >= 2 * threads:
            return None
        if self.alone:
            return self.alone.popleft()._replace(place=place) if flying < threads else None
        if not self.waiting:
            return None
        group = self._group(place)
        seconds = self.seconds.get(group)
        # Jobs that are long, or that nobody knows, do not wait at a worker while others are idle.
        if flying >= threads and (seconds is None or seconds > BATCH_S):
            return None
        waiting = self.waiting[group]
        count = 1
        if seconds is not None:
            fair = math.ceil(self.left / (2 * all_threads))
            least = math.ceil(LEAST_BATCH_S / max(seconds, 1e-9))
            most = math.floor(BATCH_S / max(seconds, 1e-9))
            count = max(1, min(max(fair, least), most, len(waiting), BATCH_JOBS_MAX))
        jobs = [waiting.popleft() for _ in range(count)]
        if not waiting:
            del self.waiting[group]
        self.fresh.pop(group, None)
        return _Batch(group, jobs, place)

    def _group(self, place: str) -> Hashable:
        """Choose the group of which a worker gets jobs."""
        ready: Iterable[Hashable] = self.ready.get(self.cluster.workers.node(place), ())
        last = self.last.get(place)
        if last in ready and last in self.waiting:
            return last
        for group in ready:
            if group in self.waiting:
                return group
        if self.fresh:
            return next(iter(self.fresh))
        return max(self.waiting, key=lambda group: len(self.waiting[group]))

    def _send(self, batch: _Batch) -> None:
        given = [self.jobs[job].given for job in batch.jobs]
        call = _dumps(Call(self.function, self.cluster.blob, given))
        future = self.cluster.workers.submit(call, batch.place)
        self.last[batch.place] = batch.group
        self.flying[future] = batch
        self.at_place[batch.place] = self.at_place.get(batch.place, 0) + 1
        future.add_done_callback(self.finished.put)


def _dumps(value: object) -> bytes:
    """Pickle what workers are sent; with cloudpickle, they need not be able to import it."""
    try:
        import cloudpickle  # noqa: PLC0415, it comes with `distributed`
    except ImportError:
        return pickle.dumps(value)
    text: bytes = cloudpickle.dumps(value)
    return text


def blob_of(specification: object) -> bytes:
    """Pickle a specification, for :class:`Cluster`."""
    return _dumps(specification)
