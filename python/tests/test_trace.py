"""Traces: opened, generated, from arrays and from Arrow; their columns."""

import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import thermocline as tc
from hypothesis import given
from hypothesis import strategies as st

PGBENCH = "testdata/pgbench/pgbench.csv.zst"


@given(
    st.lists(
        st.tuples(st.integers(0, 2**40), st.booleans(), st.integers(0, 2**62), st.integers(1, 5)),
        min_size=1,
        max_size=50,
    )
)
def test_arrays_come_back_as_accesses(rows: list[tuple[int, bool, int, int]]) -> None:
    pages, writes, at_ns, counts = zip(*rows, strict=True)
    trace = tc.Trace.from_arrays(pages, writes=writes, at_ns=at_ns, counts=counts)
    expected = [
        (page + offset, write, at, request)
        for request, (page, write, at, count) in enumerate(rows)
        for offset in range(count)
    ]
    found = zip(
        trace.page_numbers[trace.page_ids].tolist(),
        trace.writes.tolist(),
        trace.at_ns.tolist(),
        trace.requests.tolist(),
        strict=True,
    )
    assert list(found) == expected
    assert len(trace) == len(expected)
    assert trace.footprint_pages == len({page for page, *_ in expected})
    # Ids are in the order of first appearance.
    firsts = list(dict.fromkeys(trace.page_ids.tolist()))
    assert firsts == list(range(trace.footprint_pages))


@pytest.mark.parametrize("make", [pa.table, pl.DataFrame, pd.DataFrame])
def test_any_library_of_arrow_is_a_source(make: type) -> None:
    columns = {"page": [3, 1, 3], "write": [True, False, False], "at_ns": [5, 6, 7]}
    trace = tc.Trace.from_arrow(make(columns), name="mine")
    assert trace.name == "mine"
    assert trace.page_numbers[trace.page_ids].tolist() == [3, 1, 3]
    assert trace.writes.tolist() == [True, False, False]
    assert trace.at_ns.tolist() == [5, 6, 7]


RECORDED = """\
7 1.0 openat(AT_FDCWD, "/d/one.db", O_RDWR) = 3
7 1.1 openat(AT_FDCWD, "/d/two.db", O_RDWR) = 4
7 1.2 openat(AT_FDCWD, "/d/one.db-wal", O_RDWR) = 5
7 1.3 pread64(3, ""..., 8192, 0) = 8192
7 1.4 pread64(4, ""..., 8192, 0) = 8192
7 1.5 pwrite64(5, ""..., 4096, 0) = 4096
"""


def test_a_recording_is_opened_by_class_and_by_file(tmp_path: Path, program: str) -> None:
    recording, raw = str(tmp_path / "x.csv"), tmp_path / "x.strace"
    raw.write_text(RECORDED)
    convert = [program, "trace", "convert", "--from", "strace"]
    subprocess.run([*convert, str(raw), "-o", recording], check=True, capture_output=True)
    lengths = [len(tc.Trace.open(recording, only=only)) for only in ("data", ["data", "log"], [])]
    assert lengths == [4, 5, 5]
    assert tc.Trace.open(recording, volumes="files").split(3, how="volume").clients == 3
    with pytest.raises(tc.TraceError, match="volume"):
        tc.Trace.open(recording).split(3, how="volume")
    with pytest.raises(tc.TraceError, match="'logs'"):
        tc.Trace.open(recording, only="logs")
    with pytest.raises(tc.TraceError, match="volumes='disks'"):
        tc.Trace.open(recording, volumes="disks")  # type: ignore[arg-type]
    with pytest.raises(tc.TraceError):
        tc.Trace.open(PGBENCH, only="data")


def test_a_trace_is_a_table_and_can_be_made_of_it(zipf: tc.Trace) -> None:
    again = tc.Trace.from_arrow(zipf)
    np.testing.assert_array_equal(again.page_ids, zipf.page_ids)
    np.testing.assert_array_equal(again.at_ns, zipf.at_ns)
    assert tc.simulate(again, "lru", {"ram": 50}).miss_ratio == (
        tc.simulate(zipf, "lru", {"ram": 50}).miss_ratio
    )
    frame = pl.DataFrame(zipf)
    assert frame.columns == ["page_id", "write", "at_ns", "page_number", "request"]
    assert len(frame) == len(zipf)


def test_columns_are_shared_and_cannot_be_changed(zipf: tc.Trace) -> None:
    column = zipf.to_arrow().column("page_id").chunk(0)
    assert column.buffers()[1].address == zipf.page_ids.ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        zipf.page_ids[0] = 7


def test_a_saved_trace_is_the_same(zipf: tc.Trace, tmp_path: Path) -> None:
    path = tmp_path / "saved.parquet"
    zipf.save(path)
    again = tc.Trace.open(path)
    np.testing.assert_array_equal(again.page_ids, zipf.page_ids)
    np.testing.assert_array_equal(again.writes, zipf.writes)


def test_the_bundled_trace_opens(tmp_path: Path) -> None:
    trace = tc.Trace.open(Path(PGBENCH), page_size=8192)
    assert trace.page_size_bytes == 8192
    assert trace.is_timed
    assert trace.info["accesses"] == len(trace)
    assert trace.info["write_share"] == trace.writes.mean()
    copy = f"file://{Path(PGBENCH).absolute()}"
    fetched = tc.Trace.open(copy, page_size="8KiB")
    np.testing.assert_array_equal(fetched.page_ids, trace.page_ids)
    for absent in (f"{copy}.absent", "nope://trace.csv"):
        with pytest.raises(tc.TraceError, match=f"^{absent}: cannot be fetched: "):
            tc.Trace.open(absent)
    bad = tmp_path / "bad.spc"
    bad.write_text("0,8,4096,r,0.5\n0,8,x,r,0.6\n")
    with pytest.raises(tc.TraceError, match=r"bad\.spc: line 2: .*size"):
        tc.Trace.open(bad, format="spc")


def test_generators_are_seeded_and_checked() -> None:
    one, same, other = (tc.Trace.generate(requests=500, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.page_ids, same.page_ids)
    assert one.page_numbers.tolist() != other.page_numbers.tolist()
    with pytest.raises(tc.TraceError, match="there are: zipf, uniform"):
        tc.Trace.generate("gauss")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"requests=1000\.0: expected a whole number"):
        tc.Trace.generate(requests=1e3)  # type: ignore[arg-type]
    with pytest.raises(tc.TraceError, match="requests=-1"):
        tc.Trace.generate(requests=-1)
    with pytest.raises(tc.TraceError, match="write"):
        tc.Trace.generate(write_share=2.0)


def test_what_is_no_column_is_named() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"pages": []}, "no requests"),
        ({"pages": [[1]]}, r"`pages` has the shape \(1, 1\)"),
        ({"pages": [1.5]}, "`pages` has the type float64"),
        ({"pages": [4, -3]}, r"`pages`\[1\] is -3"),
        ({"pages": [1, 2], "writes": [True]}, r"`writes` has the shape \(1,\): expected \(2,\)"),
        ({"pages": [1], "writes": [7]}, "`writes` must be booleans"),
        ({"pages": [1], "counts": [2**30]}, "2\\^24"),
        ({"pages": [1], "page_size": "5KiB"}, "power of two"),
    ]
    for arguments, message in cases:
        with pytest.raises(tc.TraceError, match=message):
            tc.Trace.from_arrays(**arguments)
    with pytest.raises(tc.TraceError, match="`pages` is a masked array"):
        tc.Trace.from_arrays(np.ma.array([1, 2], mask=[False, True]))
    with pytest.raises(tc.TraceError, match=r"no column `page`.* among side"):
        tc.Trace.from_arrow(pa.table({"side": [1]}))
    with pytest.raises(tc.TraceError, match="`page` has 1 nulls"):
        tc.Trace.from_arrow(pa.table({"page": [1, None]}))


def test_a_trace_is_dealt_out_to_clients(zipf: tc.Trace) -> None:
    assert zipf.clients == 1
    assert not zipf.client_ids.any()
    dealt = zipf.split(3)
    assert dealt.clients == 3
    np.testing.assert_array_equal(dealt.client_ids, dealt.requests % 3)
    np.testing.assert_array_equal(dealt.page_ids, zipf.page_ids)
    assert dealt.to_arrow().column("client").to_pylist() == dealt.client_ids.tolist()
    assert "client" not in zipf.to_arrow().column_names
    alone = dealt.split(1)
    assert alone.clients == 1
    assert not alone.client_ids.any()
    with pytest.raises(tc.TraceError, match="split it round-robin"):
        zipf.split(2, "volume")
    with pytest.raises(tc.TraceError, match="clients=17: expected"):
        zipf.split(17)
    with pytest.raises(tc.TraceError, match="how='page'"):
        zipf.split(2, "page")  # type: ignore[arg-type]
    with pytest.raises(tc.TraceError, match="whose access is whose is not saved"):
        dealt.save("never.parquet")


def test_traces_of_clients_are_merged_by_time(tmp_path: Path) -> None:
    one = tc.Trace.from_arrays([1, 5], writes=[True, False], at_ns=[10, 30], counts=[2, 1])
    other = tc.Trace.from_arrays([5, 2], at_ns=[20, 40])
    other.save(tmp_path / "other.parquet")
    both = tc.Trace.merge([one, tmp_path / "other.parquet"])
    assert both.page_numbers[both.page_ids].tolist() == [1, 2, 5, 5, 2]
    assert both.client_ids.tolist() == [0, 0, 1, 0, 1]
    assert both.writes.tolist() == [True, True, False, False, False]
    assert both.at_ns.tolist() == [10, 10, 20, 30, 40]
    apart = tc.Trace.merge([one, other], private=True)
    assert (both.footprint_pages, apart.footprint_pages) == (3, 5)
    untimed = tc.Trace.from_arrays([1])
    large = tc.Trace.from_arrays([1], page_size="8KiB")
    for traces, message in [
        ([one, untimed], "has times and .* has none"),
        ([one, large], "pages of 4096 B, arrays of 8192 B: open both"),
        ([], "from 1 to 16"),
        ([one] * 17, "from 1 to 16"),
    ]:
        with pytest.raises(tc.TraceError, match=message):
            tc.Trace.merge(traces)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pages": [2**64 - 1]}, r"`pages`\[0\] is 18446744073709551615: .* np\.unique"),
        ({"pages": [3, 2**64 - 3], "counts": [1, 3]}, r"`pages`\[1\] is 18446744073709551613"),
        ({"pages": [1, 2], "counts": [1, 0]}, r"`counts`\[1\] is 0: .* drop those without"),
    ],
)
def test_requests_that_were_dropped_are_refused(arguments: dict[str, Any], message: str) -> None:
    arrays: dict[str, Any] = {
        name: np.array(values, np.uint64) for name, values in arguments.items()
    }
    with pytest.raises(tc.TraceError, match=message):
        tc.Trace.from_arrays(**arrays)


def test_the_greatest_pages_are_pages() -> None:
    trace = tc.Trace.from_arrays(np.array([2**64 - 3], np.uint64), counts=[2])
    assert trace.page_numbers.tolist() == [2**64 - 3, 2**64 - 2]


@pytest.mark.parametrize("name", ["op", "is_write", "rw", "size", "length", "time", "timestamp"])
def test_columns_that_say_more_are_not_passed_over(name: str) -> None:
    table = pa.table({"page": [1, 2], name: [0, 1], "comment": ["a", "b"]})
    with pytest.raises(tc.TraceError, match=f"unknown column `{name}`: describe it"):
        tc.Trace.from_arrow(table)
    tc.Trace.from_arrow(table, columns={"page": "page"})
    written = tc.Trace.from_arrow(table, columns={"page": "page", "write": name})
    assert written.writes.tolist() == [False, True]


def test_columns_are_named() -> None:
    table = pa.table({"lbn": [1, 2], "rw": [True, False]})
    trace = tc.Trace.from_arrow(table, columns={"page": "lbn", "write": "rw"})
    assert trace.page_numbers.tolist() == [1, 2]
    for columns, message in {
        "page": r"columns\['page'\]: unknown column `block`; the columns are: lbn, rw",
        "pages": r"`pages` is not a use of a column; expected one of: time, op, volume",
    }.items():
        with pytest.raises(tc.TraceError, match=message):
            tc.Trace.from_arrow(table, columns={columns: "block"})
    with pytest.raises(tc.TraceError, match="`page` is missing"):
        tc.Trace.from_arrow(table, columns={"write": "rw"})


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=30),
    st.data(),
)
def test_a_slice_has_its_accesses(requests: list[tuple[int, int]], data: st.DataObject) -> None:
    pages, counts = zip(*requests, strict=True)
    times = np.arange(len(pages)) * 10
    trace = tc.Trace.from_arrays(pages, counts=counts, at_ns=times)
    start = data.draw(st.integers(0, len(trace) - 1))
    end = data.draw(st.integers(start + 1, len(trace)))
    part = trace[start:end]
    numbers = trace.page_numbers[trace.page_ids][start:end]
    assert part.page_numbers[part.page_ids].tolist() == numbers.tolist()
    assert part.at_ns.tolist() == trace.at_ns[start:end].tolist()
    assert part.requests.tolist() == (trace.requests[start:end] - trace.requests[start]).tolist()


def test_what_is_no_slice_is_told(zipf: tc.Trace) -> None:
    with pytest.raises(TypeError, match="without a step"):
        zipf[::2]
    with pytest.raises(TypeError, match="takes a slice"):
        zipf[3]  # type: ignore[index]
    with pytest.raises(tc.TraceError, match=r"trace\[5:5\] has no access"):
        zipf[5:5]
    with pytest.raises(tc.TraceError, match="3 clients: slice the trace before"):
        zipf.split(3)[:5]
    with pytest.raises(tc.TraceError, match="3 clients: pickle the trace before"):
        pickle.dumps(zipf.split(3))


def test_a_pickled_trace_is_the_same(zipf: tc.Trace) -> None:
    again = pickle.loads(pickle.dumps(zipf))
    assert again.to_arrow().equals(zipf.to_arrow())
    assert again.page_size_bytes == zipf.page_size_bytes


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60))
def test_reuse_distances_count_the_pages_between(pages: list[int]) -> None:
    expected = []
    for place, page in enumerate(pages):
        earlier = [other for other in range(place) if pages[other] == page]
        expected.append(len(set(pages[earlier[-1] + 1 : place])) if earlier else -1)
    assert tc.Trace.from_arrays(pages).reuse_distances().tolist() == expected
