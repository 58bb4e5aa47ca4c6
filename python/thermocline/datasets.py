"""Traces that come with the package."""

from __future__ import annotations

from functools import cache

from thermocline import _thermocline
from thermocline.trace import Trace

__all__ = ["pgbench"]


@cache
def pgbench() -> Trace:
    """Return the bundled trace: PostgreSQL under pgbench, with pages of 8 KiB.

    It is what ``thermocline demo`` replays: 247,639 requests of two clients in 120,000
    transactions, two thirds of them look-ups, recorded below a PostgreSQL 15 server with 2 MB of
    shared buffers. ``testdata/pgbench/README.md`` says how.

    Returns
    -------
    Trace
        The compiled trace, which is made once per process.

    Examples
    --------
    >>> import thermocline as tc
    >>> len(tc.datasets.pgbench()), tc.datasets.pgbench().footprint_pages
    (260211, 38899)
    """
    return Trace(_thermocline.Trace.bundled())
