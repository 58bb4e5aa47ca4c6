"""The command line that comes with the package."""

import subprocess
import sys
from pathlib import Path

import pytest
import thermocline as tc


def script() -> str:
    path = Path(sys.executable).with_name("thermocline")
    assert path.exists(), "the package is not installed"
    return str(path)


@pytest.mark.parametrize("begin", [[script()], [sys.executable, "-m", "thermocline"]])
def test_the_command_line_is_that_of_rust(begin: list[str]) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*begin, *words], check=False, capture_output=True, text=True)

    assert run("--version").stdout == f"thermocline {tc.__version__}\n"
    assert run("policies", "hat").returncode == 0
    failed = run("simulate", "no-such.csv", "--policy", "lru", "--tier", "ram=1p")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "no-such.csv" in failed.stderr
    wrong = run("simulate")
    assert wrong.returncode == 2
    assert "Usage" in wrong.stderr
