"""Traces of page accesses."""

from __future__ import annotations

import json
import tempfile
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import pyarrow as pa

from thermocline import _remote, _thermocline
from thermocline.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Trace"]

_Scalar = TypeVar("_Scalar", bound=np.generic)

BATCH = 65_536
"""Requests that the extension is given together."""

Kind = Literal["zipf", "uniform", "sequential", "loop", "oltp"]


class Trace:
    """A trace, compiled: page accesses with dense ids in order of first appearance.

    Make one with :meth:`open`, :meth:`from_arrays`, :meth:`from_arrow` or :meth:`generate`, and
    one of several clients with :meth:`split` or :meth:`merge`.

    Examples
    --------
    >>> import thermocline as tc
    >>> trace = tc.Trace.from_arrays([7, 9, 7], writes=[False, True, True])
    >>> len(trace), trace.footprint_pages
    (3, 2)
    >>> trace.page_ids
    array([0, 1, 0], dtype=uint32)
    >>> trace.page_numbers
    array([7, 9], dtype=uint64)
    """

    def __init__(self, compiled: _thermocline.Trace) -> None:
        self._compiled = compiled

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        page_size: str | int | None = None,
        format: str | None = None,  # noqa: A002, it is called so everywhere
        time_unit: Literal["ns", "us", "ms"] | None = None,
        allow_truncated: bool = False,
        only: str | Sequence[str] = (),
        volumes: Literal["all", "files"] = "all",
    ) -> Trace:
        """Read and compile a trace file of any format that the command line reads.

        Parameters
        ----------
        path : str or PathLike
            The file, compressed or not; or, with fsspec installed, a URL as in ``s3://...``.
        page_size : str or int, optional
            Bytes per page, a power of two from 512 to 16 MiB, as in ``4096`` or ``"8KiB"``; the
            recording's own, else 4 KiB, if not given.
        format : str, optional
            The format; told by the content if not given.
        time_unit : {"ns", "us", "ms"}, optional
            The unit of time of formats that leave it open.
        allow_truncated : bool, optional
            Whether a truncated file is taken for what it holds.
        only : str or sequence of str, optional
            Of a recording of ``thermocline trace record``, the classes of files whose requests are
            taken, as in ``"data"`` or ``["data", "log"]``; all if not given.
        volumes : {"all", "files"}, optional
            Of a recording, whether each file is a volume of its own.

        Returns
        -------
        Trace
            The compiled trace.

        Raises
        ------
        TraceError
            If the file cannot be read or is malformed; the message says where. If `only` or
            `volumes` are given, and it is no recording.

        Examples
        --------
        >>> import thermocline as tc
        >>> trace = tc.Trace.open("testdata/pgbench/pgbench.csv.zst", page_size="8KiB")
        >>> trace.footprint_pages
        38899
        """
        text = None if page_size is None else str(page_size)
        if volumes not in {"all", "files"}:
            message = f"volumes={volumes!r}: it takes 'all' or 'files'"
            raise TraceError(message)
        with _remote.local(path) as file:
            return cls(
                _thermocline.Trace.open(
                    file,
                    text,
                    format,
                    time_unit,
                    allow_truncated,
                    [only] if isinstance(only, str) else list(only),
                    volumes == "files",
                )
            )

    @classmethod
    def from_arrays(
        cls,
        pages: ArrayLike,
        *,
        writes: ArrayLike | None = None,
        at_ns: ArrayLike | None = None,
        counts: ArrayLike | None = None,
        page_size: str | int = "4KiB",
        name: str = "arrays",
    ) -> Trace:
        """Make a trace of requests in arrays.

        Parameters
        ----------
        pages : array_like
            The first page of each request, shape ``(n,)``, whole numbers from 0 to 2**64 - 2; n
            must be > 0.
        writes : array_like, optional
            Whether each request writes, shape ``(n,)``, bool; all read if not given.
        at_ns : array_like, optional
            When each request came, shape ``(n,)``, unit: ns, >= 0; all at 0 if not given.
        counts : array_like, optional
            How many pages each request has, shape ``(n,)``, each from 1 to 2**24; one if not given.
        page_size : str or int, optional
            Bytes per page, a power of two from 512 to 16 MiB.
        name : str, optional
            What messages and results call the trace.

        Returns
        -------
        Trace
            The compiled trace.

        Raises
        ------
        TraceError
            If an array is empty, has another shape, or values that cannot be.

        Examples
        --------
        >>> import numpy as np
        >>> import thermocline as tc
        >>> trace = tc.Trace.from_arrays(np.array([10, 4]), counts=[3, 1])
        >>> trace.page_numbers[trace.page_ids]
        array([10, 11, 12,  4], dtype=uint64)
        """
        first = _whole("pages", pages, None)
        lengths = None if counts is None else _whole("counts", counts, len(first))
        _check_extents(first, lengths)
        columns = (
            first,
            lengths,
            None if writes is None else _switches("writes", writes, len(first)),
            None if at_ns is None else _whole("at_ns", at_ns, len(first)),
        )
        batches = (
            tuple(None if column is None else column[start : start + BATCH] for column in columns)
            for start in range(0, len(first), BATCH)
        )
        return cls(_thermocline.Trace.from_batches(batches, False, str(page_size), name))

    @classmethod
    def from_arrow(
        cls,
        table: Any,
        *,
        columns: Mapping[str, str] | None = None,
        page_size: str | int = "4KiB",
        name: str = "arrow",
    ) -> Trace:
        """Make a trace of a table of any library that speaks Arrow.

        Parameters
        ----------
        table : object with ``__arrow_c_stream__``
            A table of pyarrow, polars, pandas, DuckDB or others, a row per request. Its columns:
            ``page`` (or ``page_number``), whole numbers >= 0, and perhaps ``write`` (bool),
            ``at_ns`` (>= 0) and ``count`` (pages per request), as in :meth:`from_arrays`. None of
            these has nulls. Columns such as ``op`` or ``size``, which look as if they said more
            about requests, are refused; others are not looked at.
        columns : Mapping[str, str], optional
            The names that columns have in the table, by those above, as in
            ``{"page": "lbn", "write": "is_write"}``. The table's other columns are then not
            looked at.
        page_size : str or int, optional
            Bytes per page, a power of two from 512 to 16 MiB.
        name : str, optional
            What messages and results call the trace.

        Returns
        -------
        Trace
            The compiled trace.

        Raises
        ------
        TraceError
            If a column is missing, has nulls, or values that cannot be.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import thermocline as tc
        >>> tc.Trace.from_arrow(pa.table({"page": [1, 2, 1], "write": [True, False, False]}))
        <thermocline.Trace arrow: 3 accesses, 2 pages of 4096 B>
        """
        rows = pa.table(table)
        names = _roles(rows.column_names, columns)

        def column(role: str) -> Any:
            if role not in names:
                return None
            found = rows.column(names[role])
            if found.null_count:
                message = f"column `{names[role]}` has {found.null_count} nulls: fill them"
                raise TraceError(message)
            return found.to_numpy()

        pages = column("page")
        return cls.from_arrays(
            pages,
            writes=column("write"),
            at_ns=column("at_ns"),
            counts=column("count"),
            page_size=page_size,
            name=name,
        )

    @classmethod
    def generate(
        cls,
        kind: Kind = "zipf",
        *,
        requests: int = 100_000,
        pages: int = 10_000,
        alpha: float = 1.0,
        write_share: float = 0.3,
        interval_ns: int = 100_000,
        scatter: bool = False,
        shift: tuple[int, int] | None = None,
        seed: int = 1,
        page_size: str | int = "4KiB",
    ) -> Trace:
        """Make a synthetic trace, the same on every platform.

        Parameters
        ----------
        kind : {"zipf", "uniform", "sequential", "loop", "oltp"}, optional
            What to make; "oltp" is a mix of hot pages, scans and an appended log.
        requests : int, optional
            How many requests, > 0.
        pages : int, optional
            How many pages there are to reference, > 0.
        alpha : float, optional
            The skew of "zipf", >= 0.
        write_share : float, optional
            The share of requests that write, in ``[0, 1]``.
        interval_ns : int, optional
            The time from one request to the next, unit: ns, >= 0.
        scatter : bool, optional
            Whether hot pages are scattered over the address space.
        shift : tuple of int, optional
            For "zipf" and the hot pages of "oltp": the number of requests between two moves of the
            hot set, and the number of pages that become the coldest at each move. By default the
            hot set stays.
        seed : int, optional
            The seed, from 0 to 2**64 - 1: the same seed makes the same trace.
        page_size : str or int, optional
            Bytes per page, a power of two from 512 to 16 MiB.

        Returns
        -------
        Trace
            The compiled trace.

        Raises
        ------
        TraceError
            If an option is out of its range.

        Examples
        --------
        >>> import thermocline as tc
        >>> trace = tc.Trace.generate("loop", requests=6, pages=3, write_share=0)
        >>> trace.page_ids
        array([0, 1, 2, 0, 1, 2], dtype=uint32)
        """
        numbers = {"requests": requests, "pages": pages, "interval_ns": interval_ns, "seed": seed}
        if shift is not None:
            numbers["shift[0]"], numbers["shift[1]"] = shift
        for option, number in numbers.items():
            if not isinstance(number, Integral):
                message = f"{option}={number!r}: it takes a whole number, an `int`"
                raise TypeError(message)
            if not 0 <= number < 2**64:
                message = f"{option}={number}: it takes a whole number from 0 to 2**64 - 1"
                raise TraceError(message)
        compiled = _thermocline.Trace.generate(
            kind,
            requests,
            pages,
            alpha,
            write_share,
            interval_ns,
            scatter,
            shift,
            seed,
            str(page_size),
        )
        return cls(compiled)

    @classmethod
    def merge(
        cls,
        traces: Sequence[Trace | str | PathLike[str]],
        *,
        private: bool = False,
    ) -> Trace:
        """Merge the traces of several clients by the times of their requests.

        Requests of the same time take turns, so traces without times are merged request by
        request. What :func:`simulate` and :func:`compare` do with it, ``docs/clients.md`` says.

        Parameters
        ----------
        traces : Sequence[Trace or str or PathLike]
            A trace per client, or a file that :meth:`open` reads; from 1 to 16, with pages of the
            same size, all with times or all without.
        private : bool, optional
            Whether no page is shared; else clients that name the same page of the same volume
            mean the same one.

        Returns
        -------
        Trace
            The accesses of all, in order; :attr:`client_ids` tells whose each is.

        Raises
        ------
        TraceError
            If there are too many traces, or some that do not go together.

        Examples
        --------
        >>> import thermocline as tc
        >>> one, other = tc.Trace.from_arrays([1, 2]), tc.Trace.from_arrays([1, 3])
        >>> both = tc.Trace.merge([one, other])
        >>> both.page_numbers[both.page_ids], both.client_ids
        (array([1, 1, 2, 3], dtype=uint64), array([0, 1, 0, 1], dtype=uint8))
        >>> tc.Trace.merge([one, other], private=True).footprint_pages
        4
        """
        opened = [trace if isinstance(trace, Trace) else cls.open(trace) for trace in traces]
        for trace in opened[1:]:
            if trace.page_size_bytes != opened[0].page_size_bytes:
                message = (
                    f"{opened[0].name} has pages of {opened[0].page_size_bytes} B, {trace.name} of "
                    f"{trace.page_size_bytes} B: open both with the same `page_size`"
                )
                raise TraceError(message)
        return cls(_thermocline.Trace.merge([trace._compiled for trace in opened], private))

    def split(
        self,
        clients: int,
        how: Literal["round-robin", "volume"] = "round-robin",
    ) -> Trace:
        """Deal the requests out to several clients.

        Parameters
        ----------
        clients : int
            How many clients, from 1 to 16.
        how : {"round-robin", "volume"}, optional
            Request by request in turn, or volume by volume.

        Returns
        -------
        Trace
            The same accesses; :attr:`client_ids` tells whose each is.

        Raises
        ------
        TraceError
            If there cannot be so many clients, or there are fewer volumes.

        Examples
        --------
        >>> import thermocline as tc
        >>> trace = tc.Trace.generate("zipf", requests=3000, pages=500, seed=2).split(3)
        >>> run = tc.simulate(trace, "lru-n-inclusive", {"l1": "2%", "l2": "10%"})
        >>> run.clients.column("accesses").to_pylist()
        [1000, 1000, 1000]
        """
        if how not in {"round-robin", "volume"}:
            message = f"how={how!r}: it takes 'round-robin' or 'volume'"
            raise TraceError(message)
        if not 1 <= clients <= 16:
            message = f"clients={clients}: it takes a whole number from 1 to 16"
            raise TraceError(message)
        return Trace(self._compiled.split(clients, how == "volume"))

    def save(self, path: str | PathLike[str]) -> None:
        """Save the compiled trace as a Parquet file, which :meth:`open` opens at once.

        Whose access is whose is not saved: split or merge a trace when it is open.

        Parameters
        ----------
        path : str or PathLike
            The file, which appears whole or not at all.

        Raises
        ------
        TraceError
            If the file cannot be written, or the accesses are those of several clients.
        """
        self._compiled.save(path)

    def __len__(self) -> int:
        """How many accesses there are, at least 1."""
        return len(self._compiled)

    def __getitem__(self, accesses: slice) -> Trace:
        """Return a range of accesses as a trace of its own, as in ``trace[1000:2000]``.

        Its ids count from 0 again. Requests at both ends may be cut.

        Raises
        ------
        TraceError
            If the range is empty, or the accesses are those of several clients.
        TypeError
            If it is no slice, or one with a step.

        Examples
        --------
        >>> import thermocline as tc
        >>> part = tc.Trace.from_arrays([5, 6, 7, 6])[2:]
        >>> part.page_numbers[part.page_ids]
        array([7, 6], dtype=uint64)
        """
        if not isinstance(accesses, slice) or accesses.step not in {None, 1}:
            message = f"{accesses!r}: a trace takes a slice without a step, as in trace[1000:2000]"
            raise TypeError(message)
        start, end, _ = accesses.indices(len(self))
        if start >= end:
            message = f"trace[{accesses.start}:{accesses.stop}] has no access: take a longer range"
            raise TraceError(message)
        self._check_one_client("slice")
        return Trace(self._compiled.slice(start, end))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the trace as the bytes of the file that :meth:`save` writes."""
        self._check_one_client("pickle")
        with tempfile.TemporaryDirectory(prefix="thermocline-") as folder:
            path = Path(folder) / (Path(self.name).name or "trace")
            self.save(path)
            return _unpickled, (path.name, path.read_bytes())

    def _check_one_client(self, what: str) -> None:
        if self.clients > 1:
            message = (
                f"a trace of {self.clients} clients: {what} the trace before it is split or merged"
            )
            raise TraceError(message)

    def reuse_distances(self) -> NDArray[np.int64]:
        """Return how many other pages were accessed since the last access to the same page.

        An LRU cache of c pages hits where the distance is from 0 to c - 1.

        Returns
        -------
        NDArray
            Shape ``(len(self),)``; -1 where a page is accessed for the first time.

        Examples
        --------
        >>> import thermocline as tc
        >>> tc.Trace.from_arrays([7, 8, 8, 7]).reuse_distances()
        array([-1, -1,  0,  1])
        """
        return self._compiled.reuse_distances()

    def __repr__(self) -> str:
        """Its name and its size."""
        accesses, pages = f"{len(self):,}", f"{self.footprint_pages:,}"
        name = Path(self.name).name
        size = self.page_size_bytes
        return f"<thermocline.Trace {name}: {accesses} accesses, {pages} pages of {size} B>"

    @property
    def name(self) -> str:
        """The file that it was read from, or the name that it was given."""
        return self._compiled.path

    @property
    def page_size_bytes(self) -> int:
        """Bytes per page."""
        return self._compiled.page_size_bytes

    @property
    def footprint_pages(self) -> int:
        """How many distinct pages are accessed."""
        return self._compiled.footprint_pages

    @property
    def clients(self) -> int:
        """How many clients make the accesses; 1 unless it was split or merged."""
        return self._compiled.clients

    @property
    def is_timed(self) -> bool:
        """Whether any request has a time other than 0."""
        return self._compiled.is_timed

    @cached_property
    def page_ids(self) -> NDArray[np.uint32]:
        """The dense page id of each access, shape ``(len(self),)``, < `footprint_pages`."""
        return _frozen(self._compiled.page_ids())

    @cached_property
    def writes(self) -> NDArray[np.bool_]:
        """Whether each access writes, shape ``(len(self),)``."""
        return _frozen(self._compiled.writes())

    @cached_property
    def page_numbers(self) -> NDArray[np.uint64]:
        """The page number of each id, shape ``(footprint_pages,)``."""
        return _frozen(self._compiled.page_numbers())

    @cached_property
    def requests(self) -> NDArray[np.uint64]:
        """The request of each access, shape ``(len(self),)``, ascending from 0."""
        return _frozen(self._compiled.requests())

    @cached_property
    def at_ns(self) -> NDArray[np.uint64]:
        """When the request of each access came, shape ``(len(self),)``, unit: ns."""
        return _frozen(self._compiled.at_ns())

    @cached_property
    def client_ids(self) -> NDArray[np.uint8]:
        """The client of each access, shape ``(len(self),)``, < `clients`."""
        return _frozen(self._compiled.client_ids())

    @cached_property
    def info(self) -> dict[str, Any]:
        """What the trace holds, as by ``thermocline trace info --json``.

        Examples
        --------
        >>> import thermocline as tc
        >>> info = tc.Trace.from_arrays([1, 2, 1, 1], writes=[0, 0, 1, 1]).info
        >>> info["accesses"], info["write_share"], info["mean_references_per_page"]
        (4, 0.5, 2.0)
        """
        found = _thermocline.find("stats", {}, self._compiled, [], None)
        info: dict[str, Any] = json.loads(found)
        return info

    def to_arrow(self) -> pa.Table:
        """Return the accesses as an Arrow table that shares the memory of the columns.

        Returns
        -------
        pyarrow.Table
            A row per access: ``page_id`` (uint32), ``write`` (bool), ``at_ns`` (uint64, ns),
            ``page_number`` (uint64), ``request`` (uint64); with several clients ``client``
            (uint8).

        Examples
        --------
        >>> import thermocline as tc
        >>> tc.Trace.from_arrays([5, 6]).to_arrow().column("page_number").to_pylist()
        [5, 6]
        """
        columns: dict[str, NDArray[Any]] = {
            "page_id": self.page_ids,
            "write": self.writes,
            "at_ns": self.at_ns,
            "page_number": self.page_numbers[self.page_ids],
            "request": self.requests,
        }
        if self.clients > 1:
            columns["client"] = self.client_ids
        return pa.table({name: pa.array(column) for name, column in columns.items()})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def _frozen(column: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Keep a column from being changed, as the trace is not."""
    column.flags.writeable = False
    return column


def _column(name: str, values: ArrayLike, rows: int | None) -> NDArray[Any]:
    if np.ma.isMaskedArray(values):
        message = f"`{name}` is a masked array: fill what is masked, or leave it out"
        raise TraceError(message)
    column = np.asarray(values)
    if column.ndim != 1 or (rows is not None and len(column) != rows):
        wanted = "(n,)" if rows is None else f"({rows},)"
        message = f"`{name}` has the shape {column.shape}: it takes {wanted}"
        raise TraceError(message)
    return column


_ROLES = {
    "page": ("page", "page_number"),
    "write": ("write",),
    "at_ns": ("at_ns",),
    "count": ("count",),
}
"""What columns may say, and what they are called."""

_UNKNOWN = {
    "op": "`write`, a column of booleans",
    "is_write": '`write`: columns={"write": "is_write", ...}',
    "rw": "`write`, a column of booleans",
    "size": "`count`, in pages",
    "length": "`count`, in pages",
    "time": "`at_ns`, in nanoseconds",
    "timestamp": "`at_ns`, in nanoseconds",
}
"""Columns that look as if they said more about requests, and what says it."""


def _roles(there: Sequence[str], columns: Mapping[str, str] | None) -> dict[str, str]:
    """Give the column of each role that a table has."""
    known = ", ".join(there) or "none"
    if columns is not None:
        for role, name in columns.items():
            if role not in _ROLES:
                message = f"columns[{role!r}]: there are {', '.join(_ROLES)}"
                raise TraceError(message)
            if name not in there:
                message = f"columns[{role!r}]: there is no column `{name}`; there are: {known}"
                raise TraceError(message)
        found = dict(columns)
    else:
        named = (
            (role, next((n for n in names if n in there), None)) for role, names in _ROLES.items()
        )
        found = {role: name for role, name in named if name is not None}
    if "page" not in found:
        message = f"there is no column `page` or `page_number`; there are: {known}"
        raise TraceError(message)
    for name in there if columns is None else ():
        if name in _UNKNOWN:
            message = (
                f"column `{name}` is not understood: give {_UNKNOWN[name]}, or say with `columns` "
                "which columns are to be looked at, or drop it"
            )
            raise TraceError(message)
    return found


def _check_extents(first: NDArray[np.uint64], counts: NDArray[np.uint64] | None) -> None:
    """Refuse requests without pages, and those that end beyond the greatest page number."""
    if counts is not None and len(counts) and counts.min() == 0:
        place = int(np.argmin(counts))
        message = f"`counts`[{place}] is 0: a request has at least one page; drop those without"
        raise TraceError(message)
    last = np.uint64(2**64 - 2)
    limits = last if counts is None else last - (counts - np.uint64(1))
    beyond = first > limits
    if beyond.any():
        place = int(np.argmax(beyond))
        message = (
            f"`pages`[{place}] is {first[place]}: a request ends at page 2**64 - 2 at the latest; "
            "number the pages anew, as by np.unique(pages, return_inverse=True)"
        )
        raise TraceError(message)


def _unpickled(name: str, content: bytes) -> Trace:
    """Open a pickled trace."""
    with tempfile.TemporaryDirectory(prefix="thermocline-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return Trace.open(path)


def _whole(name: str, values: ArrayLike, rows: int | None) -> NDArray[np.uint64]:
    column = _column(name, values, rows)
    if len(column) and not np.issubdtype(column.dtype, np.integer):
        message = f"`{name}` has the type {column.dtype}: it takes whole numbers"
        raise TraceError(message)
    if len(column) and column.min() < 0:
        place = int(np.argmax(column < 0))
        message = f"`{name}`[{place}] is {column[place]}: it takes numbers of at least 0"
        raise TraceError(message)
    return np.ascontiguousarray(column, dtype=np.uint64)


def _switches(name: str, values: ArrayLike, rows: int) -> NDArray[np.bool_]:
    column = _column(name, values, rows)
    if column.dtype != np.bool_ and not np.isin(column, (0, 1)).all():
        message = f"`{name}` takes booleans, and has other values"
        raise TraceError(message)
    return np.ascontiguousarray(column, dtype=np.bool_)
