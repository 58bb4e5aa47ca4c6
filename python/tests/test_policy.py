"""Policies written in Python."""

from collections import OrderedDict
from collections.abc import Iterable
from functools import partial

import pytest
import thermocline as tc
from hypothesis import given, settings
from hypothesis import strategies as st


class MyLru(tc.Policy):
    """Least recently used, writing back."""

    name = "my-lru"

    def __init__(self, setup: tc.Setup) -> None:
        self.setup = setup
        self.is_dirty: OrderedDict[int, bool] = OrderedDict()

    def access(self, page: int, write: bool) -> Iterable[tc.Action]:
        disk = self.setup.disk
        if page in self.is_dirty:
            self.is_dirty[page] |= write
            self.is_dirty.move_to_end(page)
            yield tc.Serve(0, 0)
            return
        if self.setup.fetches or not write:
            yield tc.Copy(page, disk, 0)
        yield tc.Serve(disk, 0)
        self.is_dirty[page] = write
        if len(self.is_dirty) > self.setup.capacity_pages[0]:
            oldest, dirty = self.is_dirty.popitem(last=False)
            if dirty:
                yield tc.Copy(oldest, 0, disk)
            yield tc.Drop(oldest, 0)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=100),
    st.integers(1, 6),
    st.sampled_from(["fetch", "allocate"]),
)
def test_an_lru_of_python_is_the_registered_one(
    accesses: list[tuple[int, bool]], capacity_pages: int, write_miss: str
) -> None:
    pages, writes = zip(*accesses, strict=True)
    trace = tc.Trace.from_arrays(pages, writes=writes)
    mine, theirs = tc.compare(
        trace,
        [MyLru, "lru"],
        {"ram": capacity_pages},
        write_miss=write_miss,  # type: ignore[arg-type]
    ).runs
    assert mine.policy == "my-lru"
    assert mine.figures["tiers"] == theirs.figures["tiers"]
    assert mine.io_time_ms == theirs.io_time_ms


def test_it_runs_wherever_a_registered_one_does(zipf: tc.Trace) -> None:
    mine = tc.simulate(zipf, MyLru, {"ram": 40}, warm_up="10%", over_time=3)
    theirs = tc.simulate(zipf, "lru", {"ram": 40}, warm_up="10%", over_time=3)
    assert (
        mine.figures["over_time"]["intervals"][-1]["hits"]
        == (theirs.figures["over_time"]["intervals"][-1]["hits"])
    )
    timed = [
        tc.simulate(zipf, policy, {"ram": 40}, timing="events", closed_loop=4)
        for policy in (MyLru, "lru")
    ]
    assert timed[0].figures["response_us"] == timed[1].figures["response_us"]
    curve = tc.mrc(zipf, [MyLru, "lru"], sizes=[20, 40], rate=1)
    mine_points, their_points = (one["points"] for one in curve.figures["curves"])
    for one, other in zip(mine_points, their_points, strict=True):
        assert one["miss_ratio"] == pytest.approx(other["miss_ratio"])
    both = tc.compare(zipf, ["lru", MyLru], {"ram": [10, 20]})
    assert both.table.column("policy").to_pylist() == ["lru", "my-lru"] * 2


class Exclusive(tc.Policy):
    """What leaves RAM goes to flash, and comes back from there."""

    def __init__(self, setup: tc.Setup, *, spare: int = 0) -> None:
        self.capacity_pages = [pages - spare for pages in setup.capacity_pages]
        self.tiers: list[list[int]] = [[], []]

    def access(self, page: int, write: bool) -> Iterable[tc.Action]:
        found = next((tier for tier in (0, 1) if page in self.tiers[tier]), 2)
        if found == 2:
            yield tc.Copy(page, 2, 0)
        else:
            self.tiers[found].remove(page)
        if found == 1:
            yield tc.Copy(page, 1, 0)
            yield tc.Drop(page, 1)
        yield tc.Serve(found, 0)
        if write:
            yield tc.Copy(page, 0, 2)
        self.tiers[0].append(page)
        if len(self.tiers[0]) > self.capacity_pages[0]:
            victim = self.tiers[0].pop(0)
            yield tc.Copy(victim, 0, 1)
            yield tc.Drop(victim, 0)
            self.tiers[1].append(victim)
        if len(self.tiers[1]) > self.capacity_pages[1]:
            yield tc.Drop(self.tiers[1].pop(0), 1)


def test_two_tiers_and_parameters(zipf: tc.Trace) -> None:
    found = tc.compare(zipf, [Exclusive, "lru"], {"ram": 20, "flash": [40, 80]})
    small, _, large, _ = found.runs
    assert small.policy == "Exclusive"
    assert large.miss_ratio < small.miss_ratio
    spared = partial(Exclusive, spare=5)
    with pytest.raises(tc.ConfigurationError, match="needs an attribute `name`"):
        tc.simulate(zipf, spared, {"ram": 20, "flash": 40})
    spared.name = "spared"  # type: ignore[attr-defined]
    assert tc.simulate(zipf, spared, {"ram": 20, "flash": 40}).miss_ratio > small.miss_ratio


class Faulty:
    """Does at the third access what it is told."""

    def __init__(self, fault: object, _setup: tc.Setup) -> None:
        self.fault = fault
        self.accesses = 0

    def access(self, page: int, _write: bool) -> object:
        self.accesses += 1
        if self.accesses < 3:
            return [tc.Serve(1, 1)]
        return self.fault(page) if callable(self.fault) else self.fault


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (lambda page: [tc.Drop(page, 0)], tc.LedgerError, "access 3, page 2.*Drop"),
        (lambda page: [tc.Copy(page, 0, 1)], tc.LedgerError, "access 3, page 2.*Copy"),
        ([], tc.LedgerError, "access 3, page 2.*served 0 times|served"),
        ([tc.Serve(0, 0)], tc.LedgerError, "access 3, page 2, Serve"),
        ([tc.Serve(1, 200)], tc.LedgerError, "access 3, page 2, Serve"),
        ([tc.Copy(2**31, 1, 0)], tc.LedgerError, "access 3.*page"),
        (
            None,
            TypeError,
            "Serve, Copy and Drop, in a list or by `yield`, and this one with a None",
        ),
        ([7], TypeError, "Serve, Copy and Drop, .*, and this one with a int"),
        ([tc.Serve(1, -1)], TypeError, r"Serve\(found=1, tier=-1\): pages and tiers are whole"),
        ([tc.Drop("first", 0)], TypeError, "page='first'.* whole numbers"),  # type: ignore[arg-type]
        (lambda page: {"there": page}["no such key"], KeyError, "no such key"),
    ],
)
@pytest.mark.parametrize("timing", ["cost", "events"])
def test_what_is_wrong_is_told(
    fault: object, error: type[Exception], message: str, timing: str
) -> None:
    trace = tc.Trace.from_arrays([5, 6, 7, 8])
    make = partial(Faulty, fault)
    make.name = "faulty"  # type: ignore[attr-defined]
    options = {"timing": timing} | ({"closed_loop": 1} if timing == "events" else {})
    with pytest.raises(error, match=message):
        tc.simulate(trace, make, {"ram": 2}, **options)  # type: ignore[arg-type]


def test_a_policy_that_cannot_be_made_is_told(zipf: tc.Trace) -> None:
    class Broken(tc.Policy):
        def __init__(self, setup: tc.Setup) -> None:
            raise RuntimeError(f"not with {setup.capacity_pages}")

        def access(self, page: int, write: bool) -> Iterable[tc.Action]:
            raise AssertionError(page, write)

    with pytest.raises(RuntimeError, match=r"not with \(30,\)"):
        tc.simulate(zipf, Broken, {"ram": 30})
    with pytest.raises(AttributeError, match="access"):
        tc.simulate(zipf, lambda_with_name(), {"ram": 30})


def lambda_with_name() -> type:
    class Empty:
        name = "empty"

        def __init__(self, setup: tc.Setup) -> None:
            self.setup = setup

    return Empty


def test_names_are_unique(zipf: tc.Trace) -> None:
    class Lru(MyLru):
        name = "lru"

    with pytest.raises(tc.ConfigurationError, match="a registered policy is called `lru`"):
        tc.simulate(zipf, Lru, {"ram": 10})
    with pytest.raises(tc.ConfigurationError, match="two policies have the name `my-lru`"):
        tc.compare(zipf, [MyLru, MyLru], {"ram": 10})
