"""Tables of any library, batch by batch, as the extension takes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.errors import TraceError

__all__ = [
    "BATCH",
    "Columns",
    "Rows",
    "batches_of",
    "columns_of",
    "is_one_page",
    "meaning",
    "nanoseconds",
    "pages_of",
    "rows_of",
    "tables_of",
]

BATCH = 65_536
"""Rows that the extension is given together."""

Column: TypeAlias = tuple[str, Any, Any, Any]
"""A column of a batch: the type of its values, they, where texts begin, and which are missing."""

PAGED = {"page": "offset", "count": "length", "at_ns": "time", "write": "op"}
"""Our own roles of columns, and those of the command line that they stand for."""

_UNITS = {"page": ":pages", "count": ":pages", "at_ns": ":ns", "write": ""}

_NAMES = {"page": ("page", "page_number"), "write": ("write",), "at_ns": ("at_ns",)}
_NAMES["count"] = ("count",)

_UNKNOWN = {
    "op": 'columns={"op": "op", ...}',
    "is_write": 'columns={"write": "is_write", ...}',
    "rw": 'columns={"op": "rw", ...}',
    "size": 'columns={"size": "size", ...}, in bytes, or a column `count`, in pages',
    "length": 'columns={"length": "length", ...}, in bytes, or a column `count`, in pages',
    "offset": 'columns={"offset": "offset", "length": ...}',
    "key": 'columns={"key": "key", ...}',
    "volume": 'columns={"volume": "volume", ...}',
    "time": 'columns={"time": "time:s", ...}',
    "timestamp": 'columns={"time": "timestamp:s", ...}',
    "datetime": 'columns={"time": "datetime", ...}',
}
"""Columns that look as if they said more about requests, and how to say what they are."""


class Columns(NamedTuple):
    """Roles of a table's columns.

    Attributes
    ----------
    pages : dict[str, str]
        The column of each of our own roles, if there are no others.
    words : str
        All of them in the words of the command line.
    """

    pages: dict[str, str]
    words: str


class Rows(NamedTuple):
    """A table, batch by batch.

    Attributes
    ----------
    names : list[str]
        Its columns.
    batches : callable
        Gives the batches with some of the columns.
    """

    names: list[str]
    batches: Any


def rows_of(table: Any) -> Rows:
    """Open a table of any library that speaks Arrow, lazy ones too, or an iterable of batches."""
    if _is_lazy(table):
        return Rows(list(table.collect_schema().names()), lambda names: _lazily(table, names))
    if hasattr(table, "iter_batches"):  # A pyarrow.parquet.ParquetFile.
        names = list(table.schema_arrow.names)
        return Rows(names, lambda names: table.iter_batches(BATCH, columns=names))
    if hasattr(table, "to_batches") and hasattr(table, "scanner"):  # A pyarrow.dataset.Dataset.
        names = list(table.schema.names)
        return Rows(names, lambda names: table.to_batches(columns=names, batch_size=BATCH))
    if hasattr(table, "__arrow_c_stream__"):
        if isinstance(table, pa.RecordBatchReader):
            return Rows(
                list(table.schema.names), lambda names: (one.select(names) for one in table)
            )
        whole = pa.table(table)
        return Rows(whole.column_names, lambda names: whole.select(names).to_batches(BATCH))
    if isinstance(table, Iterable) and not isinstance(table, str | bytes | Mapping):
        return _of_batches(iter(table))
    message = (
        f"a table of the type {type(table).__name__}: give one of pyarrow, polars, pandas or any "
        "other library that speaks Arrow, or an iterable of record batches"
    )
    raise TypeError(message)


def _of_batches(batches: Iterator[Any]) -> Rows:
    """Open an iterable of record batches, all with the same columns."""
    first = next(batches, None)
    if first is None:
        message = "the table has no batches: a trace needs at least one request"
        raise TraceError(message)
    if not isinstance(first, pa.RecordBatch | pa.Table):
        message = (
            f"an iterable of {type(first).__name__}: expected record batches of pyarrow; "
            "`Trace.from_requests` takes requests one by one"
        )
        raise TypeError(message)
    rest = chain([first], batches)
    return Rows(list(first.schema.names), lambda names: (one.select(names) for one in rest))


def _is_lazy(table: Any) -> bool:
    return hasattr(table, "collect_schema") and not hasattr(table, "__arrow_c_stream__")


def _lazily(table: Any, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Run a lazy frame of polars, and give what it finds while it runs, if it can."""
    chosen = table.select(names)
    if hasattr(chosen, "collect_batches"):
        for frame in chosen.collect_batches(chunk_size=BATCH, maintain_order=True):
            yield from frame.to_arrow().to_batches(BATCH)
        return
    yield from chosen.collect(engine="streaming").to_arrow().to_batches(BATCH)


def columns_of(there: Sequence[str], columns: Mapping[str, str] | str | None) -> Columns:
    """Understand what the columns of a table are for, and refuse what would be ignored."""
    if isinstance(columns, str):
        return Columns({}, columns)
    known = ", ".join(there) or "none"
    if columns is None:
        found = {
            role: name
            for role, names in _NAMES.items()
            for name in (next((one for one in names if one in there), None),)
            if name is not None
        }
        if "page" not in found:
            message = (
                f"no column `page` or `page_number` among {known}; describe the columns by "
                "`columns`"
            )
            raise TraceError(message)
        for name in there:
            if name in _UNKNOWN:
                message = (
                    f"unknown column `{name}`: describe it, as in {_UNKNOWN[name]}, or drop it"
                )
                raise TraceError(message)
        columns = found
    parts = []
    for role, column in columns.items():
        if role not in PAGED:
            parts.append(f"{role}={column}")
            continue
        if column not in there:
            message = f"columns[{role!r}]: unknown column `{column}`; the columns are: {known}"
            raise TraceError(message)
        parts.append(f'{PAGED[role]}="{column}"{_UNITS[role]}')
    if all(role in PAGED for role in columns):
        if "page" not in columns:
            message = f"columns: `page` is missing; the columns are: {known}"
            raise TraceError(message)
        return Columns(dict(columns), ",".join(parts))
    return Columns({}, ",".join(parts))


def meaning(
    words: str | Mapping[str, str],
    ops: Mapping[str, str] | None,
    **more: str | bool | None,
) -> str:
    """Give the JSON of what columns and operations mean, with more about a file if it is one."""
    if not isinstance(words, str):
        words = ",".join(f"{role}={column}" for role, column in words.items())
    spec: dict[str, str | bool] = {"columns": words}
    if ops is not None:
        spec["ops"] = ",".join(f"{word}={what}" for word, what in ops.items())
    spec |= {key: value for key, value in more.items() if value is not None}
    return json.dumps(spec)


def is_one_page(objects: str) -> bool:
    """Tell what the pages of objects are, by the words of the command line."""
    if objects not in {"pages", "one"}:
        message = f"objects={objects!r}: expected 'pages' or 'one'"
        raise TraceError(message)
    return objects == "one"


def pages_of(batches: Iterable[Any], columns: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Give the arrays of our own roles in each batch, and refuse values that are missing."""
    for batch in batches:
        arrays: dict[str, Any] = {}
        for role, name in columns.items():
            column = batch.column(name)
            if column.null_count:
                message = f"column `{name}` has {column.null_count} nulls: fill them"
                raise TraceError(message)
            arrays[role] = _numpy(name, column)
        yield arrays


def _numpy(name: str, column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_temporal(kind):
        return nanoseconds(name, column).to_numpy(zero_copy_only=False)
    if pa.types.is_dictionary(kind):
        column = _decoded(column)
    return column.to_numpy(zero_copy_only=False)


def tables_of(
    batches: Iterable[Any], names: Sequence[str], ops: Mapping[str, str] | None
) -> Iterator[list[Column]]:
    """Give the columns of each batch as the extension takes them."""
    for batch in batches:
        yield [_column(name, batch.column(name), ops) for name in names]


def _column(name: str, column: Any, ops: Mapping[str, str] | None) -> Column:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = _decoded(column)
    missing = np.asarray(column.is_null()) if column.null_count else None
    kind = column.type
    if pa.types.is_boolean(kind):
        # A column of booleans says whether requests write, unless its words are given.
        words = ("write", "read") if ops is None else ("true", "false")
        column = pc.if_else(column, *words)
        kind = column.type
    if pa.types.is_null(kind):
        return "signed", np.zeros(len(column), np.int64), None, np.ones(len(column), bool)
    if pa.types.is_temporal(kind):
        return "nanos", _filled(nanoseconds(name, column), pa.int64()), None, missing
    if pa.types.is_unsigned_integer(kind):
        return "unsigned", _filled(column, pa.uint64()), None, missing
    if pa.types.is_signed_integer(kind):
        return "signed", _filled(column, pa.int64()), None, missing
    if pa.types.is_floating(kind):
        return "real", _filled(column, pa.float64()), None, missing
    if _is_text(kind):
        return "text", *_texts(column), missing
    message = f"column `{name}` has the type {kind}, which a trace cannot use"
    raise TraceError(message)


def _decoded(column: Any) -> Any:
    """Give the values of a dictionary column; those that are views have no other way."""
    if _is_string(column.dictionary.type):
        words = column.dictionary.cast(pa.large_string())
        column = pa.DictionaryArray.from_arrays(column.indices, words)
    return column.dictionary_decode()


def _is_text(kind: Any) -> bool:
    views = [getattr(pa.types, f"is_{name}_view", None) for name in ("string", "binary")]
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or any(view is not None and view(kind) for view in views)
    )


def _filled(column: Any, kind: Any) -> Any:
    if column.null_count:
        column = pc.fill_null(column, 0)
    return np.ascontiguousarray(column.cast(kind).to_numpy(zero_copy_only=False))


def nanoseconds(name: str, column: Any) -> Any:
    """Give points in time as nanoseconds since 1970, those of a day or durations as they are."""
    kind = column.type
    try:
        if pa.types.is_date(kind):
            column, kind = column.cast(pa.timestamp("ms")), pa.timestamp("ms")
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("ns", kind.tz))
        elif pa.types.is_duration(kind):
            column = column.cast(pa.duration("ns"))
        elif pa.types.is_time(kind):
            column = column.cast(pa.time64("ns"))
        return column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = f"column `{name}`: {error}"
        raise TraceError(message) from None


def _texts(column: Any) -> tuple[Any, Any]:
    """Give the bytes of texts, and where each begins."""
    if not pa.types.is_large_binary(column.type):
        column = column.cast(pa.large_string()) if _is_string(column.type) else column
        column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    begins = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    if data is None or len(begins) == 0:
        return np.empty(0, np.uint8), np.zeros(len(column) + 1, np.int64)
    # The data may be those of a larger array.
    first, last = int(begins[0]), int(begins[-1])
    return np.frombuffer(data, np.uint8)[first:last], begins - first


def _is_string(kind: Any) -> bool:
    view = getattr(pa.types, "is_string_view", None)
    return pa.types.is_string(kind) or (view is not None and view(kind))


def batches_of(requests: Iterable[Any], fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Gather requests, which come one by one, into batches."""
    places = range(len(fields))
    iterator = iter(requests)
    while chunk := list(islice(iterator, BATCH)):
        columns: list[list[Any]]
        if isinstance(chunk[0], Mapping):
            columns = [[request[name] for request in chunk] for name in fields]
        elif isinstance(chunk[0], tuple | list):
            for request in chunk:
                if len(request) != len(fields):
                    message = f"a request is {request!r}: expected {', '.join(fields)}"
                    raise TraceError(message)
            columns = [[request[place] for request in chunk] for place in places]
        elif len(fields) == 1:
            columns = [chunk]
        else:
            message = f"a request is {chunk[0]!r}: expected {', '.join(fields)}"
            raise TraceError(message)
        try:
            arrays = [_array(column) for column in columns]
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            message = f"cannot combine the requests: {error}"
            raise TraceError(message) from None
        yield pa.RecordBatch.from_arrays(arrays, names=list(fields))


def _array(values: list[Any]) -> Any:
    """Give an array of values, also of whole numbers beyond 63 bits."""
    try:
        return pa.array(values)
    except OverflowError:
        return pa.array(values, pa.uint64())
