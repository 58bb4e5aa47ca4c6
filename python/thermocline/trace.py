"""Traces of page accesses."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thermocline import _remote, _thermocline
from thermocline._tables import (
    BATCH,
    PAGED,
    Rows,
    batches_of,
    columns_of,
    is_one_page,
    meaning,
    nanoseconds,
    pages_of,
    rows_of,
    tables_of,
)
from thermocline.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from os import PathLike

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Trace"]

_Scalar = TypeVar("_Scalar", bound=np.generic)

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
        columns: str | Mapping[str, str] | PathLike[str] | None = None,
        ops: Mapping[str, str] | None = None,
        delimiter: str | None = None,
        header: bool | None = None,
        struct: str | None = None,
        objects: Literal["pages", "one"] = "pages",
        storage_options: Mapping[str, Any] | None = None,
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
            If True, read a truncated file up to its end.
        only : str or sequence of str, optional
            Of a recording of ``thermocline trace record``, the classes of files whose requests are
            taken, as in ``"data"`` or ``["data", "log"]``; all if not given.
        volumes : {"all", "files"}, optional
            Of a recording, whether each file is a volume of its own.
        columns : str or Mapping[str, str] or PathLike, optional
            Roles of the columns of a file of no known format, in the words of ``--columns``
            (``docs/traces.md``): ``"time=1:us,op=2,offset=3,length=4"``, or a mapping such as
            ``{"time": "ts:us", "key": "url"}``, or a TOML file. It takes text, JSON lines, Parquet,
            which is read row group by row group, and, with `struct`, binary records.
        ops : Mapping[str, str], optional
            Meanings of operations: ``read``, ``write``, ``remove`` or ``ignore``, by word, as in
            ``{"GET": "read", "*": "ignore"}``.
        delimiter : str, optional
            Separator of columns: comma, tab, semicolon, bar or blanks; default: detected.
        header : bool, optional
            If True, the first line names the columns; default: detected.
        struct : str, optional
            The letters of binary records, as in Python's module of that name.
        objects : {"pages", "one"}, optional
            Treatment of an object with a size: as many pages as it needs, or one page.
        storage_options : Mapping[str, Any], optional
            Options of fsspec to reach a URL, such as credentials or an endpoint.

        Returns
        -------
        Trace
            The compiled trace.

        Raises
        ------
        TraceError
            If the file cannot be read or is malformed; the message says where. If `only` or
            `volumes` are given, and the file is not a recording.

        Examples
        --------
        >>> import thermocline as tc
        >>> trace = tc.Trace.open("testdata/pgbench/pgbench.csv.zst", page_size="8KiB")
        >>> trace.footprint_pages
        38899
        """
        text = None if page_size is None else str(page_size)
        described = _described(columns, ops, delimiter=delimiter, header=header, struct=struct)
        if volumes not in {"all", "files"}:
            message = f"volumes={volumes!r}: expected 'all' or 'files'"
            raise TraceError(message)
        with _remote.local(path, storage_options) as file:
            table = _parquet(file) if described is not None and struct is None else None
            if table is not None:
                # Arrow reads every compression of Parquet.
                return cls._of_rows(
                    rows_of(table),
                    described or "",
                    ops,
                    objects=objects,
                    page_size="4KiB" if page_size is None else page_size,
                    name=os.fspath(file),
                )
            return cls(
                _thermocline.Trace.open(
                    file,
                    text,
                    format,
                    time_unit,
                    allow_truncated,
                    [only] if isinstance(only, str) else list(only),
                    volumes == "files",
                    described,
                    is_one_page(objects),
                )
            )

    @classmethod
    def from_arrays(
        cls,
        pages: ArrayLike | None = None,
        *,
        offsets: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        keys: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        writes: ArrayLike | None = None,
        at_ns: ArrayLike | None = None,
        counts: ArrayLike | None = None,
        objects: Literal["pages", "one"] = "pages",
        page_size: str | int = "4KiB",
        name: str = "arrays",
    ) -> Trace:
        """Make a trace of requests in arrays: by pages, by offsets and lengths, or by keys.

        Parameters
        ----------
        pages : array_like, optional
            The first page of each request, shape ``(n,)``, whole numbers from 0 to 2**64 - 2; n
            must be > 0.
        offsets, lengths : array_like, optional
            In place of pages: where each request begins, and how long it is, each of shape
            ``(n,)``, unit: bytes; lengths are > 0.
        keys : array_like, optional
            In place of pages: the object of each request, shape ``(n,)``, texts or whole numbers.
        sizes : array_like, optional
            How large each object is, shape ``(n,)``, unit: bytes, > 0; one page if not given.
        writes : array_like, optional
            True for requests that write, shape ``(n,)``, bool; all read if not given.
        at_ns : array_like, optional
            Arrival time of each request, shape ``(n,)``, unit: ns, >= 0, or points in time of
            NumPy, pandas or others; all at 0 if not given.
        counts : array_like, optional
            Pages of each request, shape ``(n,)``, each from 1 to 2**24; one if not given.
        objects : {"pages", "one"}, optional
            Treatment of an object with a size: as many pages as it needs, or one page.
        page_size : str or int, optional
            Bytes per page, a power of two from 512 to 16 MiB.
        name : str, optional
            Name of the trace in messages and results.

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
        >>> tc.Trace.from_arrays(offsets=[0, 8191], lengths=[4096, 2]).page_ids
        array([0, 1, 2], dtype=uint32)
        >>> tc.Trace.from_arrays(keys=["a", "b", "a"], sizes=[100, 5000, 100]).page_ids
        array([0, 1, 2, 0], dtype=uint32)
        """
        if pages is None:
            table, words = _by_bytes(offsets, lengths, keys, sizes, writes, at_ns)
            return cls.from_arrow(
                table, columns=words, objects=objects, page_size=page_size, name=name
            )
        for other, values in (("offsets", offsets), ("lengths", lengths), ("keys", keys)):
            if values is not None:
                message = f"`{other}` and `pages` exclude each other: pass one of them"
                raise TraceError(message)
        first = _whole("pages", pages, None)
        arrays: dict[str, NDArray[Any]] = {"page": first}
        if counts is not None:
            arrays["count"] = _whole("counts", counts, len(first))
        if writes is not None:
            arrays["write"] = _switches("writes", writes, len(first))
        if at_ns is not None:
            arrays["at_ns"] = _times(at_ns, len(first))
        _check_extents(first, arrays.get("count"))
        batches = (
            {role: column[start : start + BATCH] for role, column in arrays.items()}
            for start in range(0, len(first), BATCH)
        )
        return cls._of_pages(batches, page_size, name)

    @classmethod
    def _of_pages(
        cls, batches: Iterable[Mapping[str, NDArray[Any]]], page_size: str | int, name: str
    ) -> Trace:
        """Make a trace of batches of checked arrays."""
        order = ("page", "count", "write", "at_ns")
        arrays = (tuple(batch.get(role) for role in order) for batch in batches)
        return cls(_thermocline.Trace.from_batches(arrays, str(page_size), name))

    @classmethod
    def from_arrow(
        cls,
        table: Any,
        *,
        columns: Mapping[str, str] | str | None = None,
        ops: Mapping[str, str] | None = None,
        objects: Literal["pages", "one"] = "pages",
        page_size: str | int = "4KiB",
        name: str = "arrow",
    ) -> Trace:
        """Make a trace of a table of any library that speaks Arrow.

        Parameters
        ----------
        table : object with ``__arrow_c_stream__``, or others
            A table of pyarrow, polars, pandas, DuckDB or others, a row per request. A lazy frame of
            polars, a ``RecordBatchReader``, a ``ParquetFile`` or data set of pyarrow, and an
            iterable of record batches are read batch by batch, so they may be larger than memory.
            Its columns: ``page`` (or ``page_number``), whole numbers >= 0, and perhaps ``write``
            (bool), ``at_ns`` (>= 0, or points in time) and ``count`` (pages per request), as in
            :meth:`from_arrays`. None of these has nulls. Columns such as ``op`` or ``size``, which
            look as if they said more about requests, are refused; others are not looked at.
        columns : Mapping[str, str] or str, optional
            Roles of the table's columns. Either by the names above, as in
            ``{"page": "lbn", "write": "is_write"}``; or in the words of ``--columns``
            (``docs/traces.md``), as in ``{"time": "ts:us", "key": "url", "size": "bytes"}`` or
            ``"time=ts:us,key=url,size=bytes"``; or both. Points in time need no unit, and an ``op``
            of booleans says whether requests write. Other columns are not looked at.
        ops : Mapping[str, str], optional
            Meanings of operations: ``read``, ``write``, ``remove`` or ``ignore``, by word, as in
            ``{"GET": "read", "*": "ignore"}``. Without it, requests that remove something are
            refused.
        objects : {"pages", "one"}, optional
            Treatment of an object with a size: as many pages as it needs, or one page.
        page_size : str or int, optional
            Bytes per page, a power of two from 512 to 16 MiB.
        name : str, optional
            Name of the trace in messages and results.

        Returns
        -------
        Trace
            The compiled trace.

        Raises
        ------
        TraceError
            If a column is missing, has nulls, or values that cannot be; or if requests would be
            left out without a word, for they have no length or remove something.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import thermocline as tc
        >>> tc.Trace.from_arrow(pa.table({"page": [1, 2, 1], "write": [True, False, False]}))
        <thermocline.Trace arrow: 3 accesses, 2 pages of 4096 B>
        >>> table = pa.table({"url": ["a", "b"], "bytes": [9000, 10], "kind": ["get", "put"]})
        >>> columns = {"key": "url", "size": "bytes", "op": "kind"}
        >>> tc.Trace.from_arrow(table, columns=columns).writes
        array([False, False, False,  True])
        """
        rows = rows_of(table)
        found = columns_of(rows.names, columns)
        if found.pages and ops is None:
            batches = pages_of(rows.batches(list(found.pages.values())), found.pages)
            return cls._of_pages(_checked(batches, found.pages), page_size, name)
        words = meaning(found.words, ops)
        return cls._of_rows(rows, words, ops, objects=objects, page_size=page_size, name=name)

    @classmethod
    def _of_rows(
        cls,
        rows: Rows,
        words: str,
        ops: Mapping[str, str] | None,
        *,
        objects: str,
        page_size: str | int,
        name: str,
    ) -> Trace:
        """Make a trace of a table by what its columns mean."""
        numbers = _thermocline.Trace.columns_used(rows.names, words)
        used = [rows.names[number] for number in numbers]
        compiled, text = _thermocline.Trace.from_rows(
            tables_of(rows.batches(used), used, ops),
            rows.names,
            words,
            is_one_page(objects),
            str(page_size),
            name,
        )
        counts = json.loads(text)
        if counts["zero_length_requests"]:
            message = f"{counts['zero_length_requests']} requests have no length: drop them"
            raise TraceError(message)
        if counts["removals"] and ops is None:
            message = (
                f"{counts['removals']} requests remove something, and are not replayed: drop them, "
                'or say so, as in ops={"delete": "remove", ...}'
            )
            raise TraceError(message)
        return cls(compiled)

    @classmethod
    def from_requests(
        cls,
        requests: Iterable[Any],
        fields: str | Sequence[str] = "page",
        *,
        ops: Mapping[str, str] | None = None,
        objects: Literal["pages", "one"] = "pages",
        page_size: str | int = "4KiB",
        name: str = "requests",
    ) -> Trace:
        """Make a trace of requests that come one by one, in bounded memory.

        Parameters
        ----------
        requests : Iterable
            The requests: each a value if there is one field, a tuple or list, or a mapping with the
            fields as keys.
        fields : str or Sequence[str], optional
            Meanings of the values of a request: ``page``, ``write``, ``at_ns`` and ``count`` as in
            :meth:`from_arrow`, or the words of ``--columns``, with units as in ``"time:s"``.
        ops : Mapping[str, str], optional
            Meanings of operations, as in :meth:`from_arrow`.
        objects : {"pages", "one"}, optional
            Treatment of an object with a size: as many pages as it needs, or one page.
        page_size : str or int, optional
            Bytes per page, a power of two from 512 to 16 MiB.
        name : str, optional
            Name of the trace in messages and results.

        Returns
        -------
        Trace
            The compiled trace.

        Raises
        ------
        TraceError
            If there is no request, or an invalid one. Exceptions of the iterable pass through.

        Examples
        --------
        >>> import thermocline as tc
        >>> tc.Trace.from_requests(page % 3 for page in range(5)).page_ids
        array([0, 1, 2, 0, 1], dtype=uint32)
        >>> requests = [("a", 100, "get"), ("b", 5000, "put")]
        >>> tc.Trace.from_requests(requests, ("key", "size", "op")).writes
        array([False,  True,  True])
        """
        described = [fields] if isinstance(fields, str) else list(fields)
        roles = [word.partition(":")[0] for word in described]
        columns = {
            role: f'"{role}"{word.removeprefix(role)}' if role not in PAGED else role
            for role, word in zip(roles, described, strict=True)
        }
        found = columns_of(roles, columns)
        rows = Rows(roles, lambda _names: batches_of(requests, roles))
        if found.pages and ops is None:
            batches = pages_of(rows.batches(list(found.pages.values())), found.pages)
            return cls._of_pages(_checked(batches, found.pages), page_size, name)
        words = meaning(found.words, ops)
        return cls._of_rows(rows, words, ops, objects=objects, page_size=page_size, name=name)

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
            Kind of workload; "oltp" is a mix of hot pages, scans and an appended log.
        requests : int, optional
            Number of requests, > 0.
        pages : int, optional
            Number of pages in the address space, > 0.
        alpha : float, optional
            The skew of "zipf", >= 0.
        write_share : float, optional
            The share of requests that write, in ``[0, 1]``.
        interval_ns : int, optional
            The time from one request to the next, unit: ns, >= 0.
        scatter : bool, optional
            If True, hot pages are scattered over the address space.
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
                message = f"{option}={number!r}: expected a whole number, an `int`"
                raise TypeError(message)
            if not 0 <= number < 2**64:
                message = f"{option}={number}: expected a whole number from 0 to 2**64 - 1"
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
            If True, no page is shared; else clients that name the same page of the same volume
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
            Number of clients, from 1 to 16.
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
            message = f"how={how!r}: expected 'round-robin' or 'volume'"
            raise TraceError(message)
        if not 1 <= clients <= 16:
            message = f"clients={clients}: expected a whole number from 1 to 16"
            raise TraceError(message)
        return Trace(self._compiled.split(clients, how == "volume"))

    def save(self, path: str | PathLike[str]) -> None:
        """Save the compiled trace as a Parquet file, or as one that is mapped.

        A file whose name ends in ``.tct`` is mapped by :meth:`open`: it opens without being read,
        and all processes that use it share its memory. Do not write to it while it is open. Only
        this form saves whose access is whose.

        Parameters
        ----------
        path : str or PathLike
            The file, which appears whole or not at all.

        Raises
        ------
        TraceError
            If the file cannot be written, or is Parquet and the accesses are those of several
            clients.

        Examples
        --------
        >>> import tempfile
        >>> import thermocline as tc
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tc.Trace.from_arrays([5, 6, 5]).save(f"{folder}/small.tct")
        ...     tc.Trace.open(f"{folder}/small.tct").page_ids
        array([0, 1, 0], dtype=uint32)
        """
        self._compiled.save(path)

    def __len__(self) -> int:
        """Return the number of accesses, at least 1."""
        return len(self._compiled)

    def __getitem__(self, accesses: slice) -> Trace:
        """Return a range of accesses as a trace of its own, as in ``trace[1000:2000]``.

        Its ids count from 0 again. Requests at both ends may be cut.

        Raises
        ------
        TraceError
            If the range is empty, or the accesses are those of several clients.
        TypeError
            If the argument is not a slice, or has a step.

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
        """Number of distinct pages that are accessed."""
        return self._compiled.footprint_pages

    @property
    def clients(self) -> int:
        """Number of clients that make the accesses; 1 unless it was split or merged."""
        return self._compiled.clients

    @property
    def is_timed(self) -> bool:
        """True if any request has a time other than 0."""
        return self._compiled.is_timed

    @cached_property
    def page_ids(self) -> NDArray[np.uint32]:
        """The dense page id of each access, shape ``(len(self),)``, < `footprint_pages`."""
        return _frozen(self._compiled.page_ids())

    @cached_property
    def writes(self) -> NDArray[np.bool_]:
        """True for accesses that write, shape ``(len(self),)``."""
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
        """Arrival time of each access's request, shape ``(len(self),)``, unit: ns."""
        return _frozen(self._compiled.at_ns())

    @cached_property
    def client_ids(self) -> NDArray[np.uint8]:
        """The client of each access, shape ``(len(self),)``, < `clients`."""
        return _frozen(self._compiled.client_ids())

    @cached_property
    def info(self) -> dict[str, Any]:
        """Statistics of the trace, as by ``thermocline trace info --json``.

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
        message = f"`{name}` is a masked array: fill or remove the masked values"
        raise TraceError(message)
    column = np.asarray(values)
    if column.ndim != 1 or (rows is not None and len(column) != rows):
        wanted = "(n,)" if rows is None else f"({rows},)"
        message = f"`{name}` has the shape {column.shape}: expected {wanted}"
        raise TraceError(message)
    return column


def _described(
    columns: str | Mapping[str, str] | PathLike[str] | None,
    ops: Mapping[str, str] | None,
    **more: str | bool | None,
) -> str | None:
    """Give what the columns of a file mean, for the extension."""
    if columns is None:
        given = [key for key, value in {"ops": ops, **more}.items() if value is not None]
        if given:
            message = f"`{given[0]}` is about `columns`, which is not given"
            raise TraceError(message)
        return None
    if isinstance(columns, str) and not columns.endswith(".toml"):
        return meaning(columns, ops, **more)
    if isinstance(columns, Mapping):
        return meaning(columns, ops, **more)
    if ops is not None or any(value is not None for value in more.values()):
        message = f"`{columns}` describes all columns: omit the other arguments"
        raise TraceError(message)
    try:
        return Path(columns).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"in `{columns}`: {error}"
        raise TraceError(message) from None


def _parquet(path: str | PathLike[str]) -> pq.ParquetFile | None:
    """Open a Parquet file, unless it is none or has columns inside of others."""
    try:
        with Path(path).open("rb") as file:
            if file.read(4) != b"PAR1":
                return None
        found = pq.ParquetFile(path)
    except OSError:
        return None
    return None if any(pa.types.is_nested(one.type) for one in found.schema_arrow) else found


def _checked(
    batches: Iterable[Mapping[str, Any]], names: Mapping[str, str]
) -> Iterator[dict[str, NDArray[Any]]]:
    """Check the arrays of batches, one after the other."""
    for batch in batches:
        first = _whole(names["page"], batch["page"], None)
        arrays: dict[str, NDArray[Any]] = {"page": first}
        if "count" in batch:
            arrays["count"] = _whole(names["count"], batch["count"], len(first))
        if "write" in batch:
            arrays["write"] = _switches(names["write"], batch["write"], len(first))
        if "at_ns" in batch:
            arrays["at_ns"] = _whole(names["at_ns"], batch["at_ns"], len(first))
        _check_extents(first, arrays.get("count"))
        yield arrays


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
            "renumber the pages, for example by np.unique(pages, return_inverse=True)"
        )
        raise TraceError(message)


def _unpickled(name: str, content: bytes) -> Trace:
    """Open a pickled trace."""
    with tempfile.TemporaryDirectory(prefix="thermocline-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return Trace.open(path)


def _by_bytes(
    offsets: ArrayLike | None,
    lengths: ArrayLike | None,
    keys: ArrayLike | None,
    sizes: ArrayLike | None,
    writes: ArrayLike | None,
    at_ns: ArrayLike | None,
) -> tuple[pa.Table, dict[str, str]]:
    """Give a table of requests by offsets or keys, and what its columns are for."""
    if (offsets is None) == (keys is None):
        message = "give one of `pages`, `offsets` (with `lengths`) and `keys`"
        raise TraceError(message)
    if (offsets is None) != (lengths is None):
        message = "`offsets` and `lengths` go together; the sizes of objects are `sizes`"
        raise TraceError(message)
    first: Any
    if offsets is None:
        role, first = "key", _keys(keys)
    else:
        role, first = "offset", _whole("offsets", offsets, None)
    columns: dict[str, Any] = {role: first}
    for role, name, values in (("length", "lengths", lengths), ("size", "sizes", sizes)):
        if values is not None:
            columns[role] = _positive(name, values, len(first))
    if writes is not None:
        columns["op"] = _switches("writes", writes, len(first))
    words = {role: role for role in columns}
    if at_ns is not None:
        columns["time"] = _times(at_ns, len(first))
        words["time"] = "time:ns"
    return pa.table({role: pa.array(column) for role, column in columns.items()}), words


def _keys(keys: ArrayLike | None) -> Any:
    """Give the keys of objects as an Arrow array: texts, or whole numbers."""
    try:
        listed = keys if isinstance(keys, list) else np.asarray(keys)
        column = pa.array(listed, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        message = f"`keys` must be strings or whole numbers: {error}"
        raise TraceError(message) from None
    if column.null_count:
        message = f"`keys` has {column.null_count} missing values: fill them"
        raise TraceError(message)
    return column


def _positive(name: str, values: ArrayLike, rows: int) -> NDArray[np.uint64]:
    column = _whole(name, values, rows)
    if len(column) and column.min() == 0:
        place = int(np.argmin(column))
        message = f"`{name}`[{place}] is 0: drop requests without a byte"
        raise TraceError(message)
    return column


def _times(values: ArrayLike, rows: int) -> NDArray[np.uint64]:
    """Give nanoseconds: numbers as they are, points in time since 1970."""
    column = _column("at_ns", values, rows)
    if column.dtype.kind in "mMO" and len(column):
        try:
            array = pa.array(column, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            message = f"`at_ns`: {error}"
            raise TraceError(message) from None
        if array.null_count:
            message = f"`at_ns` has {array.null_count} missing values: fill them"
            raise TraceError(message)
        if pa.types.is_temporal(array.type):
            column = nanoseconds("at_ns", array).to_numpy(zero_copy_only=False)
    return _whole("at_ns", column, rows)


def _whole(name: str, values: ArrayLike, rows: int | None) -> NDArray[np.uint64]:
    column = _column(name, values, rows)
    if len(column) and not np.issubdtype(column.dtype, np.integer):
        message = f"`{name}` has the type {column.dtype}: expected whole numbers"
        if name in {"pages", "page"} and column.dtype.kind in "OUS":
            message += '; strings are `keys`, or columns={"key": ...}'
        raise TraceError(message)
    if len(column) and column.min() < 0:
        place = int(np.argmax(column < 0))
        message = f"`{name}`[{place}] is {column[place]}: expected numbers of at least 0"
        raise TraceError(message)
    return np.ascontiguousarray(column, dtype=np.uint64)


def _switches(name: str, values: ArrayLike, rows: int) -> NDArray[np.bool_]:
    column = _column(name, values, rows)
    if column.dtype != np.bool_ and not np.isin(column, (0, 1)).all():
        message = f"`{name}` must be booleans"
        raise TraceError(message)
    return np.ascontiguousarray(column, dtype=np.bool_)
