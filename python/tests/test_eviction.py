"""Replacement algorithms written in Python: hooks, compiled ones, and as tiers of a hybrid."""
# Hooks have the arguments that they are given.
# ruff: noqa: ARG002, ARG004

import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import thermocline as tc
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st


class HookedLru(tc.EvictionPolicy):
    name = "hooked-lru"

    def __init__(self, setup: tc.CacheSetup) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def hit(self, page: int, write: bool) -> None:
        self.order.move_to_end(page)

    def miss(self, page: int, write: bool) -> None:
        self.order[page] = None

    def evict(self, page: int, write: bool) -> int:
        return self.order.popitem(last=False)[0]

    def remove(self, page: int) -> None:
        del self.order[page]


class CompiledLru(tc.CompiledEvictionPolicy):
    """Links to the older and the newer page of each page; the last two are those of the anchor."""

    name = "compiled-lru"

    @staticmethod
    def state(setup: tc.CacheSetup) -> Any:
        return np.full(2 * (setup.pages + 1), setup.pages, np.uint32)

    @staticmethod
    def hit(state: Any, page: int, write: bool) -> None:
        older, newer = state[2 * page], state[2 * page + 1]
        state[2 * older + 1] = newer
        state[2 * newer] = older
        anchor = len(state) // 2 - 1
        newest = state[2 * anchor]
        state[2 * page] = newest
        state[2 * page + 1] = anchor
        state[2 * newest + 1] = page
        state[2 * anchor] = page

    @staticmethod
    def miss(state: Any, page: int, write: bool) -> None:
        anchor = len(state) // 2 - 1
        newest = state[2 * anchor]
        state[2 * page] = newest
        state[2 * page + 1] = anchor
        state[2 * newest + 1] = page
        state[2 * anchor] = page

    @staticmethod
    def evict(state: Any, page: int, write: bool) -> int:
        anchor = len(state) // 2 - 1
        victim: int = state[2 * anchor + 1]
        newer = state[2 * victim + 1]
        state[2 * anchor + 1] = newer
        state[2 * newer] = anchor
        return victim

    @staticmethod
    def remove(state: Any, page: int) -> None:
        older, newer = state[2 * page], state[2 * page + 1]
        state[2 * older + 1] = newer
        state[2 * newer] = older


OWN: list[Any] = [HookedLru, CompiledLru]


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=100),
    st.integers(1, 6),
    st.sampled_from(["fetch", "allocate"]),
)
def test_they_are_the_registered_lru(
    accesses: list[tuple[int, bool]], capacity_pages: int, write_miss: str
) -> None:
    pages, writes = zip(*accesses, strict=True)
    trace = tc.Trace.from_arrays(pages, writes=writes)
    found = tc.compare(
        trace,
        ["lru", *OWN],
        {"ram": capacity_pages},
        write_miss=write_miss,  # type: ignore[arg-type]
    ).runs
    assert [run.policy for run in found] == ["lru", "hooked-lru", "compiled-lru"]
    for mine in found[1:]:
        assert mine.figures["tiers"] == found[0].figures["tiers"]


@pytest.mark.parametrize("inclusion", ["lazy", "exclusive", "inclusive"])
@pytest.mark.parametrize("own", OWN)
def test_they_are_tiers_of_a_hybrid(zipf: tc.Trace, own: Any, inclusion: str) -> None:
    tiers = {"ram": 40, "flash": 160}
    theirs = tc.simulate(zipf, "two-tier", tiers, parameters={"inclusion": inclusion})
    for ram, flash in [(own, "lru"), ("lru", own), (own, own)]:
        policy = tc.TwoTier(ram=ram, flash=flash)
        mine = tc.simulate(zipf, policy, tiers, parameters={"inclusion": inclusion})
        assert mine.figures["tiers"] == theirs.figures["tiers"]
        assert mine.parameters == {
            name: value for name, value in theirs.parameters.items() if name not in {"ram", "flash"}
        }


def test_they_run_wherever_a_policy_does(zipf: tc.Trace) -> None:
    timed = [
        tc.simulate(zipf, policy, {"ram": 40}, timing="events", closed_loop=4)
        for policy in ["lru", *OWN]
    ]
    assert timed[0].figures["response_us"] == timed[1].figures["response_us"]
    assert timed[0].figures["response_us"] == timed[2].figures["response_us"]
    curves = tc.mrc(zipf, OWN, sizes=[20, 40], rate=1).figures["curves"]
    assert curves[0]["points"] == curves[1]["points"]


def test_a_policy_may_refuse_pages(zipf: tc.Trace) -> None:
    class FirstComers(HookedLru):
        name = "first-comers"

        def evict(self, page: int, write: bool) -> int:
            return page

    run = tc.simulate(zipf, FirstComers, {"ram": 30}, check=True)
    _, firsts = np.unique(zipf.page_ids, return_index=True)
    kept = set(zipf.page_ids[np.sort(firsts)[:30]].tolist())
    hits = sum(page in kept for page in zipf.page_ids.tolist()) - 30
    assert run.figures["tiers"][0]["hits"] == hits


@pytest.mark.parametrize(
    ("evict", "error", "message"),
    [
        (lambda _page: 7_000, ValueError, "chose page 7000 to leave for page 3"),
        (lambda _page: None, TypeError, "`evict` returned None: expected a page of the cache"),
        (lambda _page: -1, TypeError, "`evict` returned -1"),
        (lambda page: {}[page], KeyError, "3"),
    ],
)
def test_a_wrong_choice_ends_the_run(evict: Any, error: type[Exception], message: str) -> None:
    class Wrong(HookedLru):
        name = "wrong"

        def evict(self, page: int, write: bool) -> int:
            return evict(page)  # type: ignore[no-any-return]

    with pytest.raises(error, match=message):
        tc.simulate(tc.Trace.from_arrays(range(8)), Wrong, {"ram": 3})


def test_a_wrong_choice_of_a_compiled_one_ends_the_run() -> None:
    class Wrong(CompiledLru):
        name = "wrong"

        @staticmethod
        def evict(state: Any, page: int, write: bool) -> int:
            return 7_000

    with pytest.raises(ValueError, match="chose page 7000 to leave for page 3"):
        tc.simulate(tc.Trace.from_arrays(range(8)), Wrong, {"ram": 3})


def test_what_cannot_be_an_algorithm_is_refused(zipf: tc.Trace) -> None:
    class NoRemove(HookedLru):
        remove = tc.EvictionPolicy.remove  # type: ignore[assignment]

    with pytest.raises(tc.ConfigurationError, match=r"flash=NoRemove: .* define `remove`"):
        tc.TwoTier(flash=NoRemove)
    with pytest.raises(tc.ConfigurationError, match=r"ram=.*expected the name"):
        tc.TwoTier(ram=OrderedDict)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown algorithm `nonesuch`; there are: 2q"):
        tc.simulate(zipf, tc.TwoTier(ram="nonesuch"), {"ram": 3, "flash": 9})

    class TwoDimensions(CompiledLru):
        @staticmethod
        def state(setup: tc.CacheSetup) -> Any:
            return np.zeros((setup.pages, 2), np.uint32)

    with pytest.raises(ValueError, match=r"shape .*: expected a C-contiguous one"):
        tc.simulate(zipf, TwoDimensions, {"ram": 3})


def specification(tmp_path: Path, zipf: tc.Trace) -> dict[str, Any]:
    path = tmp_path / "zipf.parquet"
    if not path.exists():
        zipf.save(path)
    policies = ["lru", *OWN, tc.TwoTier(ram=HookedLru, flash=CompiledLru)]
    return {
        "policies": policies,
        "trace": [{"path": str(path)}],
        "tier": [{"name": "ram", "sizes": ["20p", "40p"]}, {"name": "flash", "sizes": ["80p"]}],
    }


def test_they_run_in_sweeps(tmp_path: Path, zipf: tc.Trace) -> None:
    spec = specification(tmp_path, zipf)
    here = tc.sweep(spec, tmp_path / "here.parquet")
    rows = here.table.to_pylist()
    assert [row["policy"] for row in rows][::2] == [
        "lru",
        "hooked-lru",
        "compiled-lru",
        "two-tier:hooked-lru/compiled-lru",
    ]
    assert rows[0]["ram_hits"] == rows[2]["ram_hits"] == rows[4]["ram_hits"]
    again = tc.sweep(spec, tmp_path / "here.parquet")
    assert (again.ran_points, again.reused_points) == (0, 8)

    class Newer(HookedLru):
        version = 2

    changed = tc.sweep(spec | {"policies": ["lru", Newer]}, tmp_path / "here.parquet")
    assert (changed.ran_points, changed.reused_points) == (2, 2)


def test_they_run_on_a_cluster(tmp_path: Path, zipf: tc.Trace) -> None:
    # Workers cannot import this module, so its classes are sent whole, as those of a notebook are.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spec = specification(tmp_path, zipf)
    here = tc.sweep(spec, tmp_path / "here.parquet")
    with Client(n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        there = tc.sweep(spec, tmp_path / "there.parquet", client=client)
    assert there.table.equals(here.table)
