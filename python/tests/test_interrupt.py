"""Ctrl-C, and the interpreter that is free while the lab works."""

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest
import thermocline as tc


def interrupt_soon(seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@pytest.fixture(scope="module")
def long() -> tc.Trace:
    """Takes many seconds with a policy that is checked."""
    return tc.Trace.generate("zipf", requests=3_000_000, pages=100_000, seed=1)


@pytest.mark.parametrize(
    "what", ["simulate", "compare", "mrc", "buffer", "hot", "events", "python"]
)
def test_an_interrupt_stops_the_replay(long: tc.Trace, what: str) -> None:
    class Slow(tc.Policy):
        def __init__(self, setup: tc.Setup) -> None:
            self.disk = setup.disk

        def access(self, page: int, write: bool) -> list[tc.Action]:
            del page, write
            return [tc.Serve(self.disk, self.disk)]

    tiers = {"ram": "5%"}
    works: dict[str, Callable[[], object]] = {
        "simulate": lambda: tc.simulate(long, "cacheus", tiers, check=True),
        "compare": lambda: tc.compare(long, ["lirs", "cacheus"], {"ram": ["1%", "5%"]}, check=True),
        "mrc": lambda: tc.mrc(long, ["cacheus", "lirs"], rate=1, sizes=["1%", "2%", "3%"]),
        "buffer": lambda: tc.buffer(long, ["cfdc", "hwb"], ["1%", "5%"], check=True),
        "hot": lambda: tc.hot(long, "all", count="reads,writes"),
        "events": lambda: tc.simulate(long, "lru", tiers, timing="events", closed_loop=4),
        "python": lambda: tc.simulate(long, Slow, tiers),
    }
    begin = time.monotonic()
    timer = interrupt_soon(0.3)

    def work() -> None:
        works[what]()
        timer.join()
        pytest.fail("it came to its end before it could be interrupted")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() - begin < 3


def test_other_threads_run_meanwhile(long: tc.Trace) -> None:
    turns = []
    is_over = threading.Event()

    def turn() -> None:
        while not is_over.wait(0.01):
            turns.append(1)

    other = threading.Thread(target=turn)
    other.start()
    begin = time.monotonic()
    tc.simulate(long, "lru", {"ram": "5%"})
    seconds = time.monotonic() - begin
    is_over.set()
    other.join()
    assert len(turns) > 10 * min(seconds, 5)


@pytest.mark.parametrize("kind", ["policy", "hooks", "stubborn"])
def test_an_interrupt_stops_a_policy_that_loops_for_ever(kind: str) -> None:
    trace = tc.Trace.from_arrays([1, 2, 3])

    class Loops(tc.Policy):
        def __init__(self, setup: tc.Setup) -> None:
            self.disk = setup.disk

        def access(self, page: int, write: bool) -> list[tc.Action]:
            while page == 1 and not write:
                pass
            return [tc.Serve(self.disk, self.disk)]

    class Stubborn(Loops):
        interrupts = 0

        def access(self, page: int, write: bool) -> list[tc.Action]:
            while self.interrupts < 3:
                try:
                    super().access(page, write)
                except KeyboardInterrupt:
                    type(self).interrupts += 1
                if page != 1:
                    break
            return [tc.Serve(self.disk, self.disk)]

    class LoopingHooks(tc.EvictionPolicy):
        def __init__(self, setup: tc.CacheSetup) -> None:
            self.setup = setup

        def hit(self, page: int, write: bool) -> None: ...

        def miss(self, page: int, write: bool) -> None:
            while page == 1 and not write:
                pass

        def evict(self, page: int, write: bool) -> int:
            raise AssertionError(page, write)

    policies = {"policy": Loops, "hooks": LoopingHooks, "stubborn": Stubborn}
    begin = time.monotonic()
    timer = interrupt_soon(0.3)
    with pytest.raises(KeyboardInterrupt):
        tc.compare(trace, ["lru", policies[kind]], {"ram": 3})
    timer.join()
    assert time.monotonic() - begin < 3
    # The interpreter and the lab are as before.
    assert tc.simulate(trace, "lru", {"ram": 3}).miss_ratio == 1


def test_python_policies_of_one_call_run_on_one_thread(long: tc.Trace) -> None:
    threads = set()

    def policy(name: str) -> type[tc.Policy]:
        class Notes(tc.Policy):
            def __init__(self, setup: tc.Setup) -> None:
                threads.add(threading.get_ident())
                self.moves: list[tc.Action] = [tc.Serve(setup.disk, setup.disk)]

            def access(self, page: int, write: bool) -> list[tc.Action]:
                del page, write
                return self.moves

        Notes.name = name  # type: ignore[attr-defined]
        return Notes

    trace = tc.Trace.from_arrays(long.page_ids[:2000])
    tc.compare(trace, [policy("one"), "lru", policy("other")], {"ram": [5, 10]})
    assert len(threads) == 1
    assert threading.get_ident() not in threads
