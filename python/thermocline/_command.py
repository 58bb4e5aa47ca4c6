"""Entry point for the command line: a run over a corpus on a Dask cluster.

``thermocline corpus run --dask`` starts this module, writes what it asks as JSON to its standard
input, and reads ``{"outcome": ...}`` or ``{"error": ...}`` from its standard output.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from thermocline import _cluster, _worker, corpus
from thermocline._progress import watching
from thermocline.errors import ClusterError, ThermoclineError

__all__: list[str] = []

CONNECT_S = 10
"""Time to wait for a scheduler, in seconds."""


def main() -> int:
    """Answer one question; the exit status is 130 after Ctrl-C."""
    asked = json.load(sys.stdin)
    try:
        answer: dict[str, Any] = {"outcome": answer_of(asked)}
    except ThermoclineError as error:
        answer = {"error": str(error)}
    except KeyboardInterrupt:
        return 130
    json.dump(answer, sys.stdout)
    return 0


def answer_of(asked: dict[str, Any]) -> dict[str, int]:
    """Run a corpus on the cluster of a scheduler."""
    if asked["version"] != _worker.VERSION:
        message = (
            f"the Python package is thermocline {_worker.VERSION}, and the command line "
            f"{asked['version']}: install the same"
        )
        raise ClusterError(message)
    try:
        from distributed import Client  # noqa: PLC0415, it is optional
    except ImportError:
        message = "Dask is missing: install it with `pip install 'thermocline[cluster]'`"
        raise ClusterError(message) from None
    spec = corpus.spec_of(
        asked["manifest"],
        asked["request"],
        [],
        root=asked["root"],
        compiled=asked["compiled"],
        cache_folder=None,
        cache_size="16GiB",
    )
    try:
        client = Client(asked["address"], timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        message = (
            f"no scheduler answers at `{asked['address']}` ({error}): start one with `dask "
            "scheduler`, or correct the address"
        )
        raise ClusterError(message) from None
    with client, watching(None, "points") as watch:
        workers = _cluster.workers_of(client, patience_s=60.0)
        return corpus.on_cluster(spec, workers, asked["output"], watch).outcome


if __name__ == "__main__":
    sys.exit(main())
