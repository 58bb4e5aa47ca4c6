"""What all tests share."""

import os
from pathlib import Path

import matplotlib as mpl
import pytest
import thermocline as tc
from hypothesis import settings

mpl.use("agg")
# How long an example takes is the machine's matter.
settings.register_profile("thermocline", deadline=None)
settings.load_profile("thermocline")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def program() -> str:
    """The command line, which is not part of the package."""
    return os.environ.get("THERMOCLINE_PROGRAM", str(ROOT / "target" / "debug" / "thermocline"))


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in examples are relative to the project."""
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="session")
def zipf() -> tc.Trace:
    """A trace of 10,000 accesses with times and writes."""
    return tc.Trace.generate("zipf", requests=10_000, pages=1_000, seed=11)
