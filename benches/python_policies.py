"""Replay a trace through LRU written in Python, in Thermocline's three forms and in libCacheSim's.

Usage: python_policies.py [ACCESSES [PAGES [RUNS]]]

Needs the packages `thermocline` (a release build: `maturin develop --release`), `libcachesim` and
`numba`. The forms run in alternation, and medians of processor time are compared: the time of the
whole call, without reading the trace and without compiling. All must miss equally often, as often
as Thermocline's own LRU.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

import libcachesim
import numpy as np
import thermocline as tc

if TYPE_CHECKING:
    from collections.abc import Callable

RAM_SHARE = 0.1
ROOT = -1


class Plain(tc.Policy):
    """LRU that answers with the moves of the hierarchy."""

    def __init__(self, setup: tc.Setup) -> None:
        self.capacity_pages = setup.capacity_pages[0]
        self.pages: OrderedDict[int, None] = OrderedDict()
        self.hit = (tc.Serve(0, 0),)
        self.miss = tc.Serve(1, 1)

    def access(self, page: int, write: bool) -> tuple[tc.Action, ...]:
        pages = self.pages
        if page in pages:
            pages.move_to_end(page)
            return self.hit
        pages[page] = None
        if len(pages) <= self.capacity_pages:
            return tc.Copy(page, 1, 0), self.miss
        return tc.Drop(pages.popitem(last=False)[0], 0), tc.Copy(page, 1, 0), self.miss


class Hooks(tc.EvictionPolicy):
    """LRU by the hooks of an eviction policy."""

    def __init__(self, setup: tc.CacheSetup) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def hit(self, page: int, write: bool) -> None:
        self.order.move_to_end(page)

    def miss(self, page: int, write: bool) -> None:
        self.order[page] = None

    def evict(self, page: int, write: bool) -> int:
        return self.order.popitem(last=False)[0]


class Compiled(tc.CompiledEvictionPolicy):
    """LRU as a ring of pages, each with the pages before and after it; the last one is the root."""

    @staticmethod
    def state(setup: tc.CacheSetup) -> np.ndarray:
        ring = np.zeros((setup.pages + 1) * 2, np.uint32)
        ring[2 * ROOT :] = setup.pages
        return ring

    @staticmethod
    def hit(state, page, write):
        before, after = state[2 * page], state[2 * page + 1]
        state[2 * before + 1] = after
        state[2 * after] = before
        root = len(state) // 2 - 1
        newest = state[2 * root]
        state[2 * page], state[2 * page + 1] = newest, root
        state[2 * newest + 1] = page
        state[2 * root] = page

    @staticmethod
    def miss(state, page, write):
        root = len(state) // 2 - 1
        newest = state[2 * root]
        state[2 * page], state[2 * page + 1] = newest, root
        state[2 * newest + 1] = page
        state[2 * root] = page

    @staticmethod
    def evict(state, page, write):
        root = len(state) // 2 - 1
        oldest = state[2 * root + 1]
        after = state[2 * oldest + 1]
        state[2 * root + 1] = after
        state[2 * after] = root
        return oldest


def plugin(path: str, capacity_pages: int) -> tuple[float, float]:
    """Replay the trace through libCacheSim's plug-in; return its misses and seconds."""
    parameters = libcachesim.ReaderInitParam()
    parameters.ignore_obj_size = True
    reader = libcachesim.TraceReader(path, libcachesim.TraceType.ORACLE_GENERAL_TRACE, parameters)
    cache = libcachesim.PluginCache(
        cache_size=capacity_pages,
        cache_init_hook=lambda _: OrderedDict(),
        cache_hit_hook=lambda order, request: order.move_to_end(request.obj_id),
        cache_miss_hook=lambda order, request: order.__setitem__(request.obj_id, None),
        cache_eviction_hook=lambda order, _: order.popitem(last=False)[0],
        cache_remove_hook=lambda order, page: order.pop(page, None),
        cache_free_hook=lambda order: order.clear(),
        cache_name="lru",
        hashpower=20,
    )
    start = time.process_time()
    miss_ratio, _ = cache.process_trace(reader)
    return miss_ratio, time.process_time() - start


def ours(trace: tc.Trace, policy: object, capacity_pages: int) -> tuple[float, float]:
    """Replay the trace through a policy; return its misses and seconds."""
    start = time.process_time()
    run = tc.simulate(trace, policy, {"ram": capacity_pages}, progress=False)
    return run.miss_ratio, time.process_time() - start


def write_oracle_general(trace: tc.Trace, path: str) -> None:
    """Write the trace's pages as records of libCacheSim's, one object each."""
    record = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    records = np.zeros(len(trace.page_ids), record)
    records["id"], records["size"], records["next"] = trace.page_ids, 1, -1
    records.tofile(path)


def main() -> None:
    """Run all forms in alternation, and print a table."""
    given = [int(word) for word in sys.argv[1:]]
    accesses, pages, runs = (*given, *(2_000_000, 100_000, 5)[len(given) :])
    trace = tc.Trace.generate("zipf", requests=accesses, pages=pages, write_share=0.0, seed=1)
    capacity_pages = int(trace.footprint_pages * RAM_SHARE)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "trace.oracleGeneral.bin")
        write_oracle_general(trace, path)
        forms: dict[str, Callable[[], tuple[float, float]]] = {
            "libCacheSim's plug-in": lambda: plugin(path, capacity_pages),
            "`Policy`": lambda: ours(trace, Plain, capacity_pages),
            "`EvictionPolicy`": lambda: ours(trace, Hooks, capacity_pages),
            "`CompiledEvictionPolicy`": lambda: ours(trace, Compiled, capacity_pages),
            "`lru`": lambda: ours(trace, "lru", capacity_pages),
        }
        ours(trace, Compiled, capacity_pages)  # Numba compiles it.
        seconds: dict[str, list[float]] = {name: [] for name in forms}
        for _ in range(runs):
            misses = set()
            for name, form in forms.items():
                miss_ratio, taken = form()
                misses.add(round(miss_ratio * accesses))
                seconds[name].append(taken)
            assert len(misses) == 1, f"the forms of LRU miss {misses} times"
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    plugin_seconds = next(iter(medians.values()))
    print(f"{accesses:,} Zipf reads of {trace.footprint_pages:,} pages; {capacity_pages:,} in RAM")
    print("| form | million/s | times libCacheSim's | least to greatest |")
    print("| --- | --- | --- | --- |")
    for name, taken in medians.items():
        least, greatest = (accesses / one / 1e6 for one in (max(seconds[name]), min(seconds[name])))
        print(
            f"| {name} | {accesses / taken / 1e6:.2f} | {plugin_seconds / taken:.1f} "
            f"| {least:.2f} to {greatest:.2f} |"
        )


if __name__ == "__main__":
    main()
