"""Modules of other packages that only some features need."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def import_extra(module: str, extra: str) -> Any:
    """Import a module of an extra. Raises: ModuleNotFoundError that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        text = f'{error.name} is missing: pip install "rocketstore[{extra}]"'
        raise ModuleNotFoundError(text, name=error.name) from None


def find_imported(module: str, *names: str) -> Any | None:
    """Return a module if the process has imported it, else None. Import nothing, and wait for nobody.

    While another thread imports a module, ``sys.modules`` has the module without most of its names. That module counts
    as not imported: no caller can have an object of it yet. A module without the names is another one of the same name.

    Parameters: names: attributes that the caller uses.
    """
    found = sys.modules.get(module)
    is_being_imported = getattr(getattr(found, "__spec__", None), "_initializing", False)
    return None if is_being_imported or not all(hasattr(found, name) for name in names) else found
