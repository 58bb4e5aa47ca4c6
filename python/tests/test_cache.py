"""A cache to hold in the hand, beside `simulate`."""

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest
import thermocline as tc

ORACLES = {"opt", "h-hfa", "oracle-hfa"}


def tiers_of(policy: tc.Entry) -> dict[str, tc.Size]:
    """Give small tiers that a policy runs on."""
    assert policy.tiers is not None
    if policy.tiers.startswith("one"):
        return {"ram": 40}
    if policy.tiers.startswith("two cache"):
        return {"ram": 20, "flash": 80}
    return {"l1": 10, "l2": 30, "l3": 80}


@pytest.fixture(scope="module")
def trace() -> tc.Trace:
    """A trace with times whose page numbers are the ids, as those of a disk are."""
    made = tc.Trace.generate("oltp", requests=4_000, pages=600, seed=5)
    return tc.Trace.from_arrays(made.page_ids, writes=made.writes, at_ns=made.at_ns)


def recorded(trace: tc.Trace, policy: str, tiers: dict[str, tc.Size]) -> tuple[tc.Run, list[Any]]:
    """Simulate a policy, and give the moves of each access."""
    run = tc.simulate(trace, policy, tiers, record=("hits", "actions"), progress=False)
    names = run.tiers.column("name").to_pylist()
    moves: list[list[tc.Action]] = [[] for _ in range(len(trace))]
    assert run.hits is not None
    assert run.actions is not None
    found = [names.index(name) for name in run.hits.column("found").to_pylist()]
    for row in run.actions.to_pylist():
        source = names.index(row["source"])
        made: dict[str, tc.Action] = {
            "serve": tc.Serve(found[row["access"]], source),
            "copy": tc.Copy(row["page_id"], source, names.index(row["target"] or "disk")),
            "drop": tc.Drop(row["page_id"], source),
        }
        moves[row["access"]].append(made[row["action"]])
    return run, moves


class Model:
    """Which tier has which version of which page: the slow way to tell."""

    def __init__(self, disk: int) -> None:
        self.disk = disk
        self.versions: dict[int, dict[int, int]] = {}
        self.newest: dict[int, int] = {}

    def follow(self, moves: list[tc.Action], page: int, write: bool) -> tuple[int, ...]:
        dropped = []
        for move in moves:
            match move:
                case tc.Serve(_, tier):
                    if write:
                        self.newest[page] = self.newest.get(page, 0) + 1
                        self.of(page)[tier] = self.newest[page]
                case tc.Copy(moved, source, target):
                    self.of(moved)[target] = self.of(moved)[source]
                case tc.Drop(gone, tier):
                    del self.of(gone)[tier]
                    dropped.append(gone)
        return tuple(page for page in dropped if len(self.of(page)) == 1)

    def of(self, page: int) -> dict[int, int]:
        return self.versions.setdefault(page, {self.disk: 0})

    def tier(self, page: int) -> int:
        newest = self.newest.get(page, 0)
        return min(tier for tier, version in self.of(page).items() if version == newest)

    def resident(self, tier: int) -> list[int]:
        return sorted(page for page, copies in self.versions.items() if tier in copies)


@pytest.mark.parametrize("policy", tc.policies(), ids=lambda policy: policy.name)
def test_every_policy_decides_as_in_a_simulation(policy: tc.Entry, trace: tc.Trace) -> None:
    tiers = tiers_of(policy)
    run, moves = recorded(trace, policy.name, tiers)
    on_trace = tc.Cache(policy.name, tiers, trace=trace)
    caches = [on_trace]
    if policy.name not in ORACLES:
        caches.append(tc.Cache(policy.name, tiers, disk_pages=trace.footprint_pages))
    names = run.tiers.column("name").to_pylist()
    for cache in caches:
        model = Model(len(tiers))
        accesses = zip(trace.page_ids, trace.writes, trace.at_ns, strict=True)
        for index, (page, write, at) in enumerate(accesses):
            found = cache.access(page, write, at_ns=int(at))
            assert list(found.actions) == moves[index], index
            assert found.evicted == model.follow(moves[index], int(page), bool(write)), index
        for page in range(trace.footprint_pages):
            assert cache.tier(page) == names[model.tier(page)]
            assert (page in cache) == (cache.tier(page) != "disk")
            assert cache.is_dirty(page) == (model.of(page)[model.disk] != model.newest.get(page, 0))
        for place, name in enumerate(tiers):
            assert cache.resident_pages(name).tolist() == model.resident(place)
        assert len(cache) == len(cache.resident_pages())
        both = ["name", "capacity_pages", "hits", "read_hits", "write_hits", "hit_ratio"]
        both += ["page_reads", "page_writes"]
        assert cache.tiers.select(both).to_pylist() == run.tiers.select(both).to_pylist()
        assert cache.miss_ratio == run.miss_ratio


@pytest.mark.parametrize("policy", tc.policies(), ids=lambda policy: policy.name)
def test_pickled_in_the_middle_every_policy_goes_on_alike(
    policy: tc.Entry, trace: tc.Trace
) -> None:
    cache = tc.Cache(policy.name, tiers_of(policy), trace=trace)
    pages, writes, times = trace.page_ids, trace.writes, trace.at_ns
    run = tc.simulate(trace, policy.name, tiers_of(policy), record="hits", progress=False)
    half = len(trace) // 2
    before = cache.access_many(pages[:half], writes[:half], at_ns=times[:half])
    twin = pickle.loads(pickle.dumps(cache))
    assert repr(twin) == repr(cache)
    assert twin.tiers == cache.tiers
    assert twin.resident_pages().tolist() == cache.resident_pages().tolist()
    after = [
        one.access_many(pages[half:], writes[half:], at_ns=times[half:]) for one in (cache, twin)
    ]
    assert run.hits is not None
    expected = run.hits.column("hit").to_numpy().tolist()
    for found in after:
        assert [*before.tolist(), *found.tolist()] == expected
    assert twin.tiers == cache.tiers
    assert twin.gauges == cache.gauges


def test_a_copy_is_a_cache_of_its_own() -> None:
    cache = tc.Cache("lru", 2)
    cache.access_many([1, 2])
    other = copy.deepcopy(cache)
    assert other.access(3).evicted == (1,)
    assert cache.resident_pages().tolist() == [1, 2]
    with pytest.raises(TypeError, match="keep_history=False"):
        pickle.dumps(tc.Cache("lru", 2, keep_history=False))


def test_a_reset_cache_is_empty() -> None:
    cache = tc.Cache("sieve", 10)
    cache.access_many(np.arange(30), np.arange(30) % 2)
    first = cache.tiers
    cache.reset()
    assert (len(cache), cache.accesses, cache.hits) == (0, 0, 0)
    assert np.isnan(cache.hit_ratio)
    cache.access_many(np.arange(30), np.arange(30) % 2)
    assert cache.tiers == first


def test_the_greatest_disk_needs_no_memory_of_its_size() -> None:
    """Policies keep what they hold, and say so where they keep something for each page."""
    refused = []
    for policy in tc.policies():
        if policy.name in ORACLES:
            continue
        try:
            cache = tc.Cache(policy.name, tiers_of(policy))
        except tc.ConfigurationError as error:
            assert "the size of the disk is missing" in str(error)  # noqa: PT017, some are refused
            refused.append(policy.name)
            continue
        cache.access_many([2**31 - 1, 0, 2**31 - 1], [True, False, False])
        assert cache.memory_bytes < 16 << 20, policy.name
    assert refused == ["tac"]


def test_sizes_are_those_of_a_hierarchy(zipf: tc.Trace) -> None:
    assert tc.Cache("lru", "64KiB").tiers.column("capacity_pages").to_pylist() == [16, None]
    small = tc.Cache("lru", "64KiB", page_size="8KiB")
    assert small.tiers.column("capacity_pages").to_pylist() == [8, None]
    share = tc.Cache("hat", ram="5%", flash="4x", trace=zipf)
    ram = zipf.footprint_pages * 5 // 100
    assert share.tiers.column("capacity_pages").to_pylist() == [ram, 4 * ram, None]
    assert tc.Cache("lru", np.int64(3)).tiers.column("capacity_pages")[0].as_py() == 3
    with pytest.raises(tc.ConfigurationError, match="disk_pages"):
        tc.Cache("lru", "5%")
    assert tc.Cache("lru", "5%", disk_pages=200).tiers.column("capacity_pages")[0].as_py() == 10


def test_policies_have_their_parameters() -> None:
    parameters = {"small_share": 0.5}
    one, other = tc.Cache("s3-fifo", 10, parameters=parameters), tc.Cache("s3-fifo", 10)
    pages = np.random.default_rng(1).zipf(1.3, 5000) % 50
    assert one.access_many(pages).sum() != other.access_many(pages).sum()
    with pytest.raises(tc.ConfigurationError, match=r'parameters\["size"\]'):
        tc.Cache("lru", 10, parameters={"size": 3})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: tc.Cache("lru"), "give the size"),
        (lambda: tc.Cache("lru", 3, ram=3), "give the size"),
        (lambda: tc.Cache("lru", 0), "at least one page"),
        (lambda: tc.Cache("hat", 3), "two cache tiers"),
        (lambda: tc.Cache("lrru", 3), "unknown policy `lrru`"),
        (lambda: tc.Cache("lru", {"ram": [3, 4]}), "one size per tier"),  # type: ignore[dict-item]
        (lambda: tc.Cache("lru", 3, disk_pages=0), "from 1 to"),
        (lambda: tc.Cache("opt", 3), "give the trace"),
        (lambda: tc.Cache("lru", 3, trace=tc.Trace.from_arrays([1]), disk_pages=3), "omit both"),
        (lambda: tc.Cache("lru", 3, trace=tc.Trace.from_arrays([1, 2]).split(2)), "client"),
        (lambda: tc.Cache("lru", 3, disk_pages=9).access(9), "from 0 to 8"),
        (lambda: tc.Cache("lru", 3).access_many([1, -1]), "-1 at index 1"),
        (lambda: tc.Cache("lru", 3).access_many([[1]]), "shape"),
        (lambda: tc.Cache("lru", 3).access_many([1, 2], [True]), r"expected \(2,\)"),
        (lambda: tc.Cache("lru", 3).resident_pages("disk"), "the tiers are ram"),
    ],
)
def test_what_cannot_be_is_told(make: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()


def test_pages_are_numbers() -> None:
    cache = tc.Cache("lru", 3)
    for page in ("a", 1.5, True, None):
        with pytest.raises(TypeError, match="whole number"):
            cache.access(page)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="number other keys first"):
        cache.access_many(["a", "b"])
    with pytest.raises(TypeError, match="a page is a whole number"):
        cache.access_many([1.0, 2.0])
    with pytest.raises(TypeError, match="simulate"):
        tc.Cache(tc.EvictionPolicy, 3)  # type: ignore[arg-type]
    assert cache.accesses == 0


def test_an_oracle_goes_along_its_trace() -> None:
    trace = tc.Trace.from_arrays([1, 2, 1, 3], writes=[0, 1, 0, 0])
    cache = tc.Cache("opt", 2, trace=trace)
    cache.access(0)
    for wrong in ((0, False), (1, False)):
        with pytest.raises(tc.ConfigurationError, match="access 1"):
            cache.access(*wrong)
    assert cache.access_many([1, 0, 2], [True, False, False]).tolist() == [False, True, False]
    with pytest.raises(tc.ConfigurationError, match="access 4"):
        cache.access(0)


def test_accesses_have_times_or_none() -> None:
    cache = tc.Cache("dm-cache", ram=4, flash=64)
    cache.access(1, at_ns=5)
    with pytest.raises(tc.ConfigurationError, match="times"):
        cache.access(2)
    cache.reset()
    assert not cache.access(2).hit


def test_threads_share_a_cache() -> None:
    """The interpreter is free while a thread works, and no access is lost."""
    cache = tc.Cache("lru", 1000, keep_history=False)
    pages = np.random.default_rng(1).integers(0, 5000, 200_000)
    threads = [threading.Thread(target=cache.access_many, args=(pages,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        cache.access(1)
    for thread in threads:
        thread.join()
    assert cache.accesses == 3 * len(pages) + 100
    assert len(cache) == 1000
