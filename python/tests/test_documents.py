"""The examples of the documentation: every block of Python, and every notebook."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("name", ["docs/python.md", "README.md"])
def test_the_blocks_of_a_document_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = BLOCK.findall((ROOT / name).read_text(encoding="utf-8"))
    assert blocks, f"{name} shows no Python"
    (tmp_path / "testdata").symlink_to(ROOT / "testdata")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "document"}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    plt.close("all")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "outputs are not committed"
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert outputs, "it shows nothing"
    # Comparisons that notebooks show are true.
    shown = [output["data"].get("text/plain") for output in outputs if "data" in output]
    assert "False" not in shown


def test_an_interrupt_reaches_a_notebook(tmp_path: Path) -> None:
    code = """
import os, signal, threading
import thermocline as tc
trace = tc.Trace.generate("zipf", requests=2_000_000, pages=100_000)
timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
try:
    tc.compare(trace, ["cacheus", "lirs"], {"ram": ["1%", "5%", "9%"]}, check=True)
    timer.join()
    print("ended")
except KeyboardInterrupt:
    print("interrupted")
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    client = NotebookClient(notebook, timeout=60, kernel_name="python3")
    client.execute(cwd=str(tmp_path))
    texts = [output.get("text") for output in notebook.cells[0].outputs]
    assert texts == ["interrupted\n"]
