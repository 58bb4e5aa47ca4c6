"""Traces of tables, requests and files, by what their columns are for."""

import datetime
import gc
import subprocess
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import thermocline as tc

FRAME = {
    "url": ["/a", "/b", "/a", "/c"],
    "bytes": [9000, 10, 9000, 4097],
    "kind": ["GET", "PUT", "GET", "GET"],
    "ts": [1.5, 2.0, 2.5, 3.0],
}
COLUMNS = {"key": "url", "size": "bytes", "op": "kind", "time": "ts:s"}


def described(trace: tc.Trace) -> tuple[Any, ...]:
    """Give all that a trace says."""
    columns = (trace.page_ids, trace.writes, trace.at_ns, trace.requests)
    return *(column.tolist() for column in columns), trace.page_size_bytes


EXPECTED = (
    [0, 1, 2, 3, 0, 1, 2, 4, 5],
    [False, False, False, True, False, False, False, False, False],
    [*[1_500_000_000] * 3, 2_000_000_000, *[2_500_000_000] * 3, *[3_000_000_000] * 2],
    [0, 0, 0, 1, 2, 2, 2, 3, 3],
    4096,
)


def tables(folder: Path) -> Iterator[Any]:
    """Give the same table in all the ways in which there are tables."""
    table = pa.table(FRAME)
    yield table
    yield pl.DataFrame(FRAME)
    yield pl.DataFrame(FRAME).with_columns(pl.col("kind").cast(pl.Categorical))
    yield pl.LazyFrame(FRAME).with_columns(unused=pl.lit([1, 2]))
    yield pd.DataFrame(FRAME)
    yield pd.DataFrame(FRAME, dtype="object").convert_dtypes(dtype_backend="pyarrow")
    yield table.to_reader(max_chunksize=1)
    yield iter(table.to_batches(max_chunksize=3))
    yield table.append_column("a list", pa.array([[1], [2], [3], [4]]))
    pq.write_table(table, folder / "t.parquet", row_group_size=2)
    yield pq.ParquetFile(folder / "t.parquet")
    yield ds.dataset(folder / "t.parquet")
    yield pl.scan_parquet(folder / "t.parquet")


def test_a_table_of_any_kind_is_a_trace(tmp_path: Path) -> None:
    count = 0
    for table in tables(tmp_path):
        assert described(tc.Trace.from_arrow(table, columns=COLUMNS)) == EXPECTED, type(table)
        count += 1
    assert count == 12
    words = ",".join(f"{role}={column}" for role, column in COLUMNS.items())
    assert described(tc.Trace.from_arrow(pa.table(FRAME), columns=words)) == EXPECTED


def test_files_are_read_by_the_same_words_as_on_the_command_line(
    tmp_path: Path, program: str
) -> None:
    table = pa.table(FRAME)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2, compression="zstd")
    pq.write_table(table, tmp_path / "snappy.parquet", compression="snappy")
    assert described(tc.Trace.open(tmp_path / "snappy.parquet", columns=COLUMNS)) == EXPECTED
    pd.DataFrame(FRAME).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame(FRAME).to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    (tmp_path / "columns.toml").write_text(
        'columns = "key=url,size=bytes,op=kind,time=ts:s"\nops = "GET=read,PUT=write"\n'
    )
    words = ",".join(f"{role}={column}" for role, column in COLUMNS.items())
    for name in ("t.parquet", "t.csv", "t.jsonl"):
        file = tmp_path / name
        assert described(tc.Trace.open(file, columns=COLUMNS)) == EXPECTED, name
        assert described(tc.Trace.open(file, columns=words)) == EXPECTED, name
        assert described(tc.Trace.open(file, columns=tmp_path / "columns.toml")) == EXPECTED
        objects: Literal["pages", "one"]
        for objects in ("pages", "one"):
            command = [program, "trace", "info", str(file), "--columns", words, "--json"]
            printed = subprocess.run(
                [*command, "--objects", objects], check=True, capture_output=True, text=True
            ).stdout
            found = tc.Trace.open(file, columns=words, objects=objects)
            assert f'"accesses":{len(found)},' in printed.replace(" ", "")


def test_operations_have_words() -> None:
    ops = {"GET": "ignore", "P*": "write"}
    trace = tc.Trace.from_arrow(pa.table(FRAME), columns=COLUMNS, ops=ops)
    assert (len(trace), trace.writes.tolist()) == (1, [True])
    with pytest.raises(tc.TraceError, match=r"row 1.*the op .GET"):
        tc.Trace.from_arrow(pa.table(FRAME), columns=COLUMNS, ops={"PUT": "write"})
    switches = pa.table({"lbn": [1, 2], "w": [True, False]})
    columns = {"page": "lbn", "op": "w"}
    assert tc.Trace.from_arrow(switches, columns=columns).writes.tolist() == [True, False]
    other_way = {"true": "read", "false": "write"}
    trace = tc.Trace.from_arrow(switches, columns=columns, ops=other_way)
    assert trace.writes.tolist() == [False, True]


def test_objects_are_their_pages_or_one() -> None:
    one = tc.Trace.from_arrow(pa.table(FRAME), columns=COLUMNS, objects="one")
    assert one.page_ids.tolist() == [0, 1, 0, 2]
    with pytest.raises(tc.TraceError, match="'pages' or 'one'"):
        tc.Trace.from_arrow(pa.table(FRAME), columns=COLUMNS, objects="bytes")  # type: ignore[arg-type]


def test_arrays_are_pages_or_offsets_or_keys() -> None:
    by_offset = tc.Trace.from_arrays(
        offsets=[4095, 0], lengths=[2, 4096], writes=[True, False], at_ns=[5, 6]
    )
    assert by_offset.page_numbers[by_offset.page_ids].tolist() == [0, 1, 0]
    assert by_offset.writes.tolist() == [True, True, False]
    assert by_offset.at_ns.tolist() == [5, 5, 6]
    for keys in (["x", "y", "x"], np.array(["x", "y", "x"]), pd.Series(["x", "y", "x"])):
        assert tc.Trace.from_arrays(keys=keys).page_ids.tolist() == [0, 1, 0]
    assert tc.Trace.from_arrays(keys=[7, -7, 7], sizes=[1, 4097, 1]).page_ids.tolist() == [
        0,
        1,
        2,
        0,
    ]
    small = tc.Trace.from_arrays(keys=["x"], sizes=[8192], objects="one")
    assert len(small) == 1


@pytest.mark.parametrize(
    "times",
    [
        np.array(["2024-05-01T00:00:01", "2024-05-01T00:00:02"], "datetime64[s]"),
        pd.to_datetime(pd.Series(["2024-05-01T00:00:01", "2024-05-01T00:00:02"])),
        pd.to_datetime(pd.Series(["2024-05-01T00:00:01", "2024-05-01T00:00:02"])).dt.tz_localize(
            "UTC"
        ),
        pl.Series([datetime.datetime(2024, 5, 1, 0, 0, 1), datetime.datetime(2024, 5, 1, 0, 0, 2)]),
        [datetime.datetime(2024, 5, 1, 0, 0, 1), datetime.datetime(2024, 5, 1, 0, 0, 2)],
        pa.array([1714521601000, 1714521602000], pa.timestamp("ms", "UTC")),
    ],
    ids=["numpy", "pandas", "pandas-tz", "polars", "python", "arrow"],
)
def test_points_in_time_are_times(times: Any) -> None:
    expected = [1714521601 * 10**9, 1714521602 * 10**9]
    assert tc.Trace.from_arrays([1, 2], at_ns=times).at_ns.tolist() == expected
    table = pa.table({"page": [1, 2], "at_ns": pa.array(times)})
    assert tc.Trace.from_arrow(table).at_ns.tolist() == expected
    columns = {"page": "page", "time": "at_ns"}
    assert tc.Trace.from_arrow(table, columns=columns).at_ns.tolist() == expected


def test_durations_and_times_of_day_are_times() -> None:
    spans = np.array([3, 4], "timedelta64[ms]")
    assert tc.Trace.from_arrays([1, 2], at_ns=spans).at_ns.tolist() == [3_000_000, 4_000_000]
    table = pa.table({"page": [1], "at_ns": pa.array([datetime.time(0, 0, 1)])})
    assert tc.Trace.from_arrow(table).at_ns.tolist() == [10**9]
    table = pa.table({"page": [1], "at_ns": pa.array([datetime.date(1970, 1, 2)])})
    assert tc.Trace.from_arrow(table).at_ns.tolist() == [86400 * 10**9]


def test_requests_come_one_by_one() -> None:
    """Batches are made of them as they come, so there may be more than memory holds."""
    taken = 0

    def requests() -> Iterator[tuple[int, bool, int]]:
        nonlocal taken
        for number in range(150_000):
            taken += 1
            yield number % 1000, number % 3 == 0, number

    trace = tc.Trace.from_requests(requests(), ("page", "write", "at_ns"))
    assert (len(trace), trace.footprint_pages, taken) == (150_000, 1000, 150_000)
    assert trace.writes.sum() == 50_000
    assert trace.at_ns[-1] == 149_999
    mappings = ({"key": f"k{n % 3}", "size": 5000, "op": "get"} for n in range(5))
    objects = tc.Trace.from_requests(mappings, ("key", "size", "op"))
    assert objects.page_ids.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3]
    timed = tc.Trace.from_requests([(1.5, 0, 512)], ("time:s", "offset", "length"))
    assert timed.at_ns.tolist() == [1_500_000_000]

    def raises() -> Iterator[int]:
        yield 1
        message = "mine"
        raise KeyError(message)

    with pytest.raises(KeyError, match="mine"):
        tc.Trace.from_requests(raises())


def test_a_stream_is_read_in_bounded_memory() -> None:
    """A batch is given up before the next but one is asked for."""
    alive: list[Any] = []
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for number in range(30):
            batch = pa.record_batch({"page": np.arange(1000) + number})
            alive.append(weakref.ref(batch))
            yield batch
            del batch
            gc.collect()
            most = max(most, sum(one() is not None for one in alive))

    assert len(tc.Trace.from_arrow(batches())) == 30_000
    assert most <= 2


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (tc.Trace.from_arrays, "give one of `pages`"),
        (lambda: tc.Trace.from_arrays([1], keys=["a"]), "`keys` and `pages`"),
        (lambda: tc.Trace.from_arrays(offsets=[1]), "go together"),
        (lambda: tc.Trace.from_arrays(keys=["a"], lengths=[1]), "go together"),
        (lambda: tc.Trace.from_arrays(offsets=[1], lengths=[0]), r"`lengths`\[0\] is 0"),
        (lambda: tc.Trace.from_arrays(keys=["a"], sizes=[0]), r"`sizes`\[0\] is 0"),
        (lambda: tc.Trace.from_arrays(keys=pd.Series(["a", None])), "missing"),
        (lambda: tc.Trace.from_arrays(["a"]), "strings are `keys`"),
        (lambda: tc.Trace.from_arrays([1], at_ns=np.array(["NaT"], "datetime64[ns]")), "missing"),
        (lambda: tc.Trace.from_arrays([1], at_ns=np.array([-1], "datetime64[ns]")), "at least 0"),
        (lambda: of({"lbn": [1]}, page="lba"), "unknown column `lba`; the columns are: lbn"),
        (lambda: of({"lbn": [1]}, key="lba"), "unknown column `lba`; the columns are: lbn"),
        (lambda: of({"lbn": [1]}, key="3"), "no column 3"),
        (lambda: of({"lbn": [1]}, page="lbn", offset="lbn"), "`offset` is given twice"),
        (lambda: of({"lbn": [None, 1]}, page="lbn"), "1 nulls"),
        (lambda: of({"lbn": [None, 1]}, offset="lbn:pages"), "row 1.*missing"),
        (lambda: of({"lbn": [-1]}, offset="lbn:pages"), "row 1"),
        (lambda: of({"lbn": [[1]]}, offset="lbn:pages"), "type list"),
        (lambda: of({"lbn": [1.5]}, offset="lbn:pages"), "not a whole number"),
        (
            lambda: of({"a": [1, 1], "b": [0, 1]}, offset="a", length="b"),
            "1 requests have no length",
        ),
        (
            lambda: of({"a": ["x", "x"], "b": ["delete", "get"]}, key="a", op="b"),
            "remove something",
        ),
        (lambda: of({"a": ["x"], "b": [1]}, key="a", time="b"), "unit of times"),
        (lambda: of({"a": []}, key="a"), "no request|empty"),
        (lambda: tc.Trace.from_arrow(iter([])), "no batch"),
        (lambda: tc.Trace.from_requests([]), "no request|empty"),
        (lambda: tc.Trace.from_requests([(1, 2)], ("page", "write", "at_ns")), "expected page"),
        (lambda: tc.Trace.from_requests([1], ("page", "write")), "expected page, write"),
        (lambda: tc.Trace.open("README.md", ops={"a": "read"}), "`ops` is about `columns`"),
    ],
)
def test_nothing_is_left_out_without_a_word(make: Any, reason: str) -> None:
    with pytest.raises(tc.TraceError, match=reason):
        make()


def of(table: dict[str, Any], **columns: str) -> tc.Trace:
    return tc.Trace.from_arrow(pa.table(table), columns=columns)


def test_what_is_no_table_is_told() -> None:
    with pytest.raises(TypeError, match="a table of the type int"):
        tc.Trace.from_arrow(3)
    with pytest.raises(TypeError, match="from_requests"):
        tc.Trace.from_arrow([1, 2])
