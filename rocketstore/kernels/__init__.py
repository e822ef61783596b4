"""Cython kernels: read and write records, units, items and slots in a buffer, one module for each structure.

``layout`` lists the fields of every structure as NumPy dtypes. Each ``.pyx`` begins with a picture of its bytes.
"""

import importlib.machinery
from pathlib import Path

if not any(Path(__path__[0]).glob(f"*{importlib.machinery.EXTENSION_SUFFIXES[0]}")):
    raise ImportError(
        f"{__path__[0]}: nothing is compiled here for this Python. If rocketstore is installed, start Python in "
        "another directory: it imports the source tree of the current one. Otherwise run: make build"
    )
