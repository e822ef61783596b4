"""Find the stores that a caller names: their roots, or patterns such as ``stores/*``."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from rocketstore.brokers.names import name_brokers
from rocketstore.disk.storage import find_matches, scandir, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import SettingError, StoreError, text_of
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.nearby import hint_at_store, require_directory
from rocketstore.survey.survey import Survey, survey_store

FAILURES = (OSError, StoreError, SettingError)  # of a store that is damaged, unreadable, or whose sizes are unknown


class FoundRoots(NamedTuple):
    """The roots of stores that were found.

    Attributes: surveys: by the name of the broker, in the order in which the roots were named. skipped: a text for each
    path that a pattern matches and that is no store. problems: why other stores cannot be opened. errors: those that
    ``problems`` describe.
    """

    surveys: dict[str, Survey]
    skipped: list[str]
    problems: list[str]
    errors: list[Exception]


class FoundStores(NamedTuple):
    """The stores that were found.

    Attributes: stores: open, by the name of the broker. skipped, problems: as of FoundRoots.
    """

    stores: dict[str, MessageStore]
    skipped: list[str]
    problems: list[str]


class _Roots(NamedTuple):
    roots: list[StorePath]
    skipped: list[str]


def has_pattern(paths: Iterable[Any]) -> bool:
    """Return whether one of some paths is a pattern. The path of an existing file is not, whatever its name is."""
    return any(find_matches(to_path(path)) is not None for path in paths)


def find_stores(
    paths: Sequence[Any], begin: Callable[[StorePath], Survey], reader_of: Callable[[Survey], MessageStore]
) -> FoundStores:
    """Find and open stores. A store that cannot be opened is among the problems.

    Parameters: paths, begin: as for ``find_roots``. reader_of: opens a store.
    Raises: as ``find_roots``; the error of the first store if no store can be opened.
    """
    found = find_roots(paths, begin)
    stores: dict[str, MessageStore] = {}
    problems, errors = [*found.problems], [*found.errors]
    for broker, survey in found.surveys.items():
        try:
            stores[broker] = reader_of(survey)
        except FAILURES as error:
            errors.append(error)
            problems.append(text_about(survey.root, error))
    if not stores:
        raise errors[0]
    return FoundStores(stores, found.skipped, problems)


def find_roots(paths: Sequence[Any], begin: Callable[[StorePath], Survey]) -> FoundRoots:
    """Find stores. Those that cannot be read are among the problems.

    Parameters: paths: roots and patterns; a root that is named twice counts once. begin: looks at a root, and raises an
    error if it is no store.
    Raises: FileNotFoundError if a pattern matches nothing; StoreError if it matches no store; the error of the first
    store if no store can be read.
    """
    roots: dict[str, StorePath] = {}
    skipped: list[str] = []
    for path in paths:
        matched = match_roots(to_path(path))
        roots |= {str(root): root for root in matched.roots}
        skipped += matched.skipped
    surveys: list[Survey] = []
    problems: list[str] = []
    errors: list[Exception] = []
    for root in roots.values():
        try:
            surveys.append(begin(root))
        except FAILURES as error:
            errors.append(error)
            problems.append(text_about(root, error))
    if not surveys:
        raise errors[0]
    return FoundRoots(dict(zip(name_brokers(surveys), surveys, strict=True)), skipped, problems, errors)


def match_roots(path: StorePath) -> _Roots:
    """Return the stores that a pattern matches, or a path without a pattern itself. Raises: as ``find_roots``."""
    matches = find_matches(path)
    if matches is None:
        return _Roots([path], [])
    if not matches:
        require_directory(directory_of(path))
        raise FileNotFoundError(errno.ENOENT, "no file or directory matches this pattern", str(path))
    roots = [match for match in matches if may_be_store(match)]
    if not roots:
        hint = next((text for text in map(hint_at_store, matches) if text), "")
        raise StoreError(f"{path}: no store matches this pattern, only {describe_some(matches)}{hint}")
    others = [match for match in matches if match not in roots]
    return _Roots(roots, [f"{match}: is no store, and is left out" for match in others])


def directory_of(pattern: StorePath) -> StorePath:
    """Return the directory in which all paths that a pattern matches are."""
    directory = pattern.parent
    return directory if find_matches(directory) is None else directory_of(directory)


def may_be_store(path: StorePath) -> bool:
    """Return whether a path is a store, or a directory that cannot be listed and so may be one."""
    try:
        with scandir(path):
            pass
    except (NotADirectoryError, FileNotFoundError):
        return False
    except OSError:
        return True
    return survey_store(path).has_store


def describe_some(paths: Sequence[StorePath]) -> str:
    """Return a text that names a few paths."""
    names = ", ".join(path.name for path in paths[:3])
    return names if len(paths) <= 3 else f"{names} and {len(paths) - 3} more"


def text_about(root: object, error: Exception) -> str:
    """Return an error as text that names the store."""
    text = text_of(error)
    return text if str(root) in text else f"{root}: {text}"


def list_of_paths(paths: str | os.PathLike[str] | StorePath | Iterable[Any]) -> list[Any]:
    """Return paths as a list. Parameters: paths: one or several. Raises: ValueError without a path."""
    is_one = isinstance(paths, str | os.PathLike) or hasattr(paths, "fs")
    found = [paths] if is_one else [*paths]  # type: ignore[misc]
    if not found:
        raise ValueError("paths: give the root of a store, several of them, or a pattern such as 'stores/*'")
    return found
