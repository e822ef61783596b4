"""Recognise the directory of a copy, conversion, split or salvage that was killed, or that is still running."""

from __future__ import annotations

from collections.abc import Collection

from rocketstore.disk.store_path import StorePath
from rocketstore.root_places import CONVERT_WORK, COPY_WORK, SALVAGE_WORK, SPLIT_WORK, RootPlaces
from rocketstore.state.copy_manifest import CopyManifest

KINDS_BY_DIRECTORY = {COPY_WORK: "copy", CONVERT_WORK: "conversion", SPLIT_WORK: "split store", SALVAGE_WORK: "salvage"}
ADVICE = "repeat the call that made it"


def describe_unfinished(root: StorePath, names: Collection[str]) -> str | None:
    """Return in words that a root is unfinished, because its call was killed or is still running; None if it is not.

    Parameters: names: of the entries of the root. Raises: StoreError for a damaged list of a copy's files; OSError.
    """
    for name, kind in KINDS_BY_DIRECTORY.items():
        if name in names:
            return f"is an unfinished {kind}: {ADVICE}"
    path = RootPlaces(root).copy_manifest
    if path.name in names and not CopyManifest.read(path).is_complete:
        return f"is an unfinished copy: {ADVICE}"
    return None
