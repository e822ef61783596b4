"""Roots that a killed process left: the call that made them must be repeated."""

from __future__ import annotations

from collections.abc import Collection

from rocketstore.disk.store_path import StorePath
from rocketstore.root_places import CONVERT_WORK, COPY_WORK, SALVAGE_WORK, SPLIT_WORK, RootPlaces
from rocketstore.state.copy_manifest import CopyManifest

KINDS = {COPY_WORK: "copy", CONVERT_WORK: "conversion", SPLIT_WORK: "split store", SALVAGE_WORK: "salvage"}
ADVICE = "repeat the call that made it"


def describe_unfinished(root: StorePath, names: Collection[str]) -> str | None:
    """Return in words that a root was never completed, or is written just now; None for any other root.

    Parameters: names: of the entries of the root. Raises: StoreError for a damaged list of a copy's files; OSError.
    """
    for name, kind in KINDS.items():
        if name in names:
            return f"is an unfinished {kind}: {ADVICE}"
    path = RootPlaces(root).copy_manifest
    if path.name in names and not CopyManifest.read(path).is_complete:
        return f"is an unfinished copy: {ADVICE}"
    return None
