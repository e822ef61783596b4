"""A plugin of pytest that writes which golden files a run opened, as JSON, to the file ROCKETSTORE_GOLDEN_READ.

.ci/wheels.py uses it to find golden files that the sdist does not need.
"""

import json
import os
import sys
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden"
OPENED = set()


def note_open(event, arguments):
    if event == "open" and isinstance(arguments[0], str | os.PathLike):
        path = os.fspath(arguments[0])
        if isinstance(path, str) and path.startswith(str(GOLDEN)):
            OPENED.add(path)


sys.addaudithook(note_open)  # before conftest.py is imported, which reads a golden file


def pytest_unconfigure(config):
    names = sorted(str(Path(path).relative_to(GOLDEN)) for path in OPENED if Path(path).is_file())
    Path(os.environ["ROCKETSTORE_GOLDEN_READ"]).write_text(json.dumps(names), encoding="utf-8")
