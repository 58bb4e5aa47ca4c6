"""The queries of `docs/corpus.md`, on the results of the study of hybrids."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, cast

import duckdb
import polars as pl
import pytest

ROOT = Path(__file__).parents[2]
RESULTS = "studies/hybrids/results"


def blocks(language: str) -> list[str]:
    text = (ROOT / "docs" / "corpus.md").read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/corpus.md shows no {language}"
    return found


@pytest.fixture(scope="module")
def study(program: str) -> list[dict[str, Any]]:
    """The sections of the program's own report, without a filter."""
    words = [program, "corpus", "report", RESULTS, "--baseline", "lru-exclusive", "--json"]
    words += ["--no-filters", "--resamples", "100"]
    report = subprocess.run(words, check=True, capture_output=True, cwd=ROOT, text=True)
    return cast("list[dict[str, Any]]", json.loads(report.stdout)["sections"])


def policies(
    study: list[dict[str, Any]], metric: str, size: str, dataset: str
) -> dict[str, dict[str, Any]]:
    section = next(one for one in study if one["metric"] == metric and one["size"] == size)
    found = next(one for one in section["datasets"] if one["dataset"] == dataset)
    return {policy["policy"]: policy for policy in found["policies"]}


def test_the_distribution_in_duckdb_is_that_of_the_report(study: list[dict[str, Any]]) -> None:
    distribution, _ = blocks("sql")
    rows = duckdb.execute(distribution).fetchall()
    assert rows
    for dataset, size, policy, _, percentiles, mean, worst in rows:
        one = policies(study, "miss_ratio", size, dataset)[policy]
        expected = [one[key] for key in ("p10", "p25", "p50", "p75", "p90")]
        assert percentiles == pytest.approx(expected, abs=1e-9)
        assert (mean, worst) == pytest.approx((one["mean"], one["min"]), abs=1e-9)


def test_wins_and_losses_in_duckdb_are_those_of_the_report(study: list[dict[str, Any]]) -> None:
    _, wins = blocks("sql")
    rows = duckdb.execute(wins).fetchall()
    assert rows
    for size, policy, *counts in rows:
        one = policies(study, "io_time_ms", size, "all")[policy]
        assert counts == [one["wins"], one["ties"], one["losses"]]


def test_the_ranks_in_polars_are_ordered() -> None:
    (code,) = blocks("python")
    names: dict[str, object] = {}
    exec(compile(code, "docs/corpus.md", "exec"), names)
    ranks = names["ranks"]
    assert isinstance(ranks, pl.DataFrame)
    # The ranks of n policies sum up to n (n + 1) / 2 on each trace that all have run on.
    for (_,), group in ranks.group_by("size"):
        count = len(group)
        if group["traces"].n_unique() == 1:
            assert group["rank"].sum() == pytest.approx(count * (count + 1) / 2)
        assert group["rank"].is_sorted()
