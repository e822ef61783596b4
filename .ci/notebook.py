"""Execute examples/store.ipynb and save it with its outputs, in place or to another file.

Run as ``python .ci/notebook.py [OUT]``. It needs nbclient, ipykernel, matplotlib and polars.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent / "examples" / "store.ipynb"
SECONDS = 300  # for each cell


def main() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", record_timing=False).execute()
    notebook.metadata["language_info"] = {"name": "python"}  # without the release of Python
    nbformat.write(notebook, sys.argv[1] if len(sys.argv) > 1 else NOTEBOOK)


if __name__ == "__main__":
    main()
