"""Names of brokers: from the files of their stores, else from the paths of these."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence

from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError
from rocketstore.java_text import trim
from rocketstore.messages.topics import BROKER_MEMBER_PREFIX
from rocketstore.survey.broker_config import open_json_tables
from rocketstore.survey.survey import Survey

IDENTITY_FIELDS = 3  # cluster#broker name#broker id


def name_brokers(surveys: Sequence[Survey]) -> list[str]:
    """Return a name for each store, each name once.

    It is the brokerName, as far as the files of the store have it, else the name of the directory. Of directories with
    equal names more of the path is used: ``/data/a/store`` and ``/data/b/store`` are a and b. Stores of one brokerName,
    such as copies, get the name of the directory too: ``broker-a@copy``.
    """
    by_path = names_of_paths([survey.root for survey in surveys])
    names = [find_broker_name(survey) or by_path[i] for i, survey in enumerate(surveys)]
    counts = Counter(names)
    unique = [name if counts[name] == 1 else f"{name}@{by_path[i]}" for i, name in enumerate(names)]
    if len({*unique}) < len(unique):  # a brokerName looks like such a name
        return [f"{name}@{survey.root}" for name, survey in zip(names, surveys, strict=True)]
    return unique


def names_of_paths(paths: Sequence[StorePath]) -> list[str]:
    """Return the shortest ends of paths by which these differ.

    Directories at the end that all paths share are left out. Parameters: paths: no path is there twice.
    """
    parts = [str(path).rstrip("/").split("/") for path in paths]
    while len(parts) > 1 and all(len(words) > 1 for words in parts) and len({words[-1] for words in parts}) == 1:
        parts = [words[:-1] for words in parts]
    for depth in range(1, max(map(len, parts), default=0)):
        names = ["/".join(words[-depth:]) for words in parts]
        if all(names) and len({*names}) == len(names):
            return names
    return [*map(str, paths)]


def find_broker_name(survey: Survey) -> str | None:
    """Return the brokerName of a store, from its settings or its files; None if they do not have it.

    A broker in controller mode has a file brokerIdentity. Any broker since 5.0 has a system topic with its name. With
    two of these topics, as in a copy that another broker used, the name is not known.
    Source: BrokerMetadata.encodeToStr, TopicConfigManager.init.
    """
    if name := trim(survey.settings.other.get("brokerName", "")):
        return name
    with contextlib.suppress(OSError, StoreError, ValueError):
        words = read_small_file(survey.places.broker_identity).decode().strip().split("#")
        if len(words) == IDENTITY_FIELDS and words[1]:
            return words[1]
    with contextlib.suppress(OSError, StoreError, ValueError):
        topics = open_json_tables(survey.places, survey.given).read_topics()
        found = [topic.removeprefix(BROKER_MEMBER_PREFIX) for topic in topics if topic.startswith(BROKER_MEMBER_PREFIX)]
        if len(found) == 1 and found[0]:
            return found[0]
    return None
