"""Modules of other packages that only some features need."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["import_extra"]


def import_extra(module: str, extra: str) -> Any:
    """Import a module of an extra. Raises: ModuleNotFoundError that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        text = f'{error.name} is missing: pip install "rocketstore[{extra}]"'
        raise ModuleNotFoundError(text, name=error.name) from None
