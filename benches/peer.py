"""Replay an oracleGeneral trace through a cache of libCacheSim and print CPU seconds, one run a line.

Usage: peer.py TRACE CAPACITY_OBJECTS HASHPOWER RUNS [CLASS]

CLASS is a cache of the package, such as S3FIFO; LRU if none is given. Each line holds the CPU
seconds of one run and the misses that it counted. Object sizes are ignored, so that the capacity
counts objects, as pages are counted by Thermocline.
"""

import sys
import time

import libcachesim


def main() -> None:
    """Run the replay as the command line says."""
    path, capacity, hashpower, runs = sys.argv[1], *map(int, sys.argv[2:5])
    make_cache = getattr(libcachesim, sys.argv[5] if len(sys.argv) > 5 else "LRU")
    for _ in range(runs):
        parameters = libcachesim.ReaderInitParam()
        parameters.ignore_obj_size = True
        reader = libcachesim.TraceReader(
            path, libcachesim.TraceType.ORACLE_GENERAL_TRACE, parameters
        )
        cache = make_cache(capacity, hashpower=hashpower)
        start = time.process_time()
        miss_ratio, _ = cache.process_trace(reader)
        seconds = time.process_time() - start
        print(seconds, round(miss_ratio * reader.n_total_req), flush=True)


if __name__ == "__main__":
    main()
