"""The notebook in examples/: it runs, and its saved outputs are those that it makes now."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
NOTEBOOK = TREE / "examples" / "store.ipynb"
SCRIPT = TREE / ".ci" / "notebook.py"
if not NOTEBOOK.exists() or not SCRIPT.exists():
    pytest.skip("tested away from the source tree", allow_module_level=True)
NEEDED = ("nbclient", "ipykernel", "matplotlib", "polars")
SHOWN = [
    "MessageStore",
    "Topic",
    "MessageBatch",
    "QueryMessageResult",
    "GetMessageResult",
    "ConsumeQueueUnits",
    "Rows",
    "VerifyReport",
    "RecoveryReport",
]


def code_cells(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def outputs_of(cell):
    """Yield the kind and the text of each output: HTML or a picture if there is one, else plain text."""
    for output in cell["outputs"]:
        data = output.get("data", {})
        kind = next((kind for kind in ("text/html", "image/svg+xml", "text/plain") if kind in data), "stream")
        yield kind, "".join(data.get(kind, output.get("text", "")))


def without_places(text):
    """Return a text without temporary directories, and without the names of index files, which are times."""
    text = re.sub(r"[^\s<>;&]*/(broker-a|copy)\b", r"\1", text)
    return re.sub(r"\b20\d{15}\b", "TIME", text)


def test_the_saved_notebook_was_executed_and_has_no_error():
    cells = code_cells(NOTEBOOK)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert "error" not in {output["output_type"] for cell in cells for output in cell["outputs"]}
    shown = [text for cell in cells for kind, text in outputs_of(cell) if kind == "text/html"]
    for name in SHOWN:
        assert any(text.startswith(f"<p>{name}") for text in shown), name
    assert any(kind == "image/svg+xml" for cell in cells for kind, _ in outputs_of(cell))


@pytest.mark.slow
def test_the_notebook_runs_and_its_saved_outputs_are_right(tmp_path):
    for module in NEEDED:
        pytest.importorskip(module, reason=f"the notebook needs {module}")
    out = tmp_path / "executed.ipynb"
    places = {"TMPDIR": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython"), "JUPYTER_CONFIG_DIR": str(tmp_path)}
    path = os.pathsep.join([str(TREE), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, SCRIPT, out],
        env={**os.environ, **places, "PYTHONPATH": path},
        text=True,
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    for saved, made in zip(code_cells(NOTEBOOK), code_cells(out), strict=True):
        assert saved["source"] == made["source"]
        before, now = ([(kind, without_places(text)) for kind, text in outputs_of(cell)] for cell in (saved, made))
        if "library" in saved["metadata"].get("tags", ()):  # the text of a table or a picture is another library's
            before, now = ([kind for kind, _ in outputs] for outputs in (before, now))
        assert before == now, f"{''.join(saved['source'])}\n\nRun: python .ci/notebook.py"
