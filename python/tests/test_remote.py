"""Traces and results in an object store, that of a server on this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import thermocline as tc

pytest.importorskip("s3fs")
fsspec = pytest.importorskip("fsspec")
moto = pytest.importorskip("moto.server")
boto3 = pytest.importorskip("boto3")

# What the clients of other projects warn about is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")

KEYS = {"key": "testing", "secret": "testing"}


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    """A store with the bucket `lab`, and what fsspec needs to reach it."""
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEYS["key"],
        aws_secret_access_key=KEYS["secret"],
    )
    client.create_bucket(Bucket="lab")
    yield {**KEYS, "client_kwargs": {"endpoint_url": endpoint, "region_name": "us-east-1"}}
    server.stop()


@pytest.fixture(scope="module")
def trace(options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tc.Trace:
    made = tc.Trace.generate("zipf", requests=20_000, pages=2_000, seed=5)
    path = tmp_path_factory.mktemp("remote") / "trace.parquet"
    made.save(path)
    with fsspec.open("s3://lab/trace.parquet", "wb", **options) as file:
        file.write(path.read_bytes())
    return made


def test_a_trace_is_opened_with_storage_options(trace: tc.Trace, options: dict[str, Any]) -> None:
    found = tc.Trace.open("s3://lab/trace.parquet", storage_options=options)
    assert (found.page_ids == trace.page_ids).all()
    with pytest.raises(tc.TraceError, match=r"s3://lab/absent\.parquet: cannot be fetched"):
        tc.Trace.open("s3://lab/absent.parquet", storage_options=options)


def test_results_of_a_sweep_go_to_s3_and_are_taken_up_there(
    trace: tc.Trace, options: dict[str, Any], tmp_path: Path
) -> None:
    del trace
    spec: dict[str, Any] = {
        "policies": ["lru", "arc"],
        "trace": [{"path": "s3://lab/trace.parquet"}],
        "tier": [{"name": "ram", "sizes": ["1%", "5%"]}],
    }
    here = tc.sweep(spec, tmp_path / "here.parquet", storage_options=options)
    output = "s3://lab/results/out.parquet"
    found = tc.sweep(spec, output, storage_options=options)
    assert (found.output, found.ran_points) == (output, 4)
    assert found.table.equals(here.table)

    def stored() -> bytes:
        with fsspec.open(output, "rb", **options) as file:
            content: bytes = file.read()
        return content

    assert stored() == (tmp_path / "here.parquet").read_bytes()
    again = tc.sweep(spec, output, storage_options=options)
    assert (again.ran_points, again.reused_points) == (0, 4)
    spec["tier"][0]["sizes"].append("10%")
    more = tc.sweep(spec, output, storage_options=options)
    assert (more.ran_points, more.reused_points) == (2, 4)
    (tmp_path / "stored.parquet").write_bytes(stored())
    assert len(pq.read_table(tmp_path / "stored.parquet")) == 6
    with pytest.raises(tc.FileError, match=r"s3://no-such-bucket/out\.parquet: cannot be written"):
        tc.sweep(spec, "s3://no-such-bucket/out.parquet", storage_options=options)
