"""bundle: write the facts about a store that a bug report needs into one archive, without messages and credentials."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rocketstore.bundle.blanking import words_of
from rocketstore.bundle.config_files import broker_settings, config_files, encode
from rocketstore.bundle.damaged_bytes import read_damage
from rocketstore.bundle.summary_files import (
    FAILURES,
    describe_files,
    describe_findings,
    describe_state,
    describe_store,
    describe_versions,
    or_error,
)
from rocketstore.config import StoreConfig
from rocketstore.disk.durable import replace_file
from rocketstore.disk.storage import local_path
from rocketstore.kernels.message_columns import Field
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.rows import export_rows
from rocketstore.preview import WIDE_CELL, Preview, Previewed, first_of
from rocketstore.progress import Progress
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.broker_config import BrokerConfig
from rocketstore.survey.requirements import begin_entry
from rocketstore.survey.survey import Survey
from rocketstore.text_values import format_count
from rocketstore.verify.findings import VerifyReport
from rocketstore.verify.kinds import KINDS
from rocketstore.verify.verify import verify

FORMATS = (".tar.gz", ".tgz", ".zip")


class BundledFile(NamedTuple):
    """A file of the archive. Attributes: name. size: bytes. contents: in words.

    Examples:
    >>> rocketstore.bundle("demo", "demo.zip").files[2].contents
    'configuration without credentials'
    """

    name: str
    size: int
    contents: str


BUNDLED_FIELDS = (Field("name", "u"), Field("size", "l"), Field("contents", "u"))


@dataclass(frozen=True, repr=False)
class BundleReport(Previewed, ArrowStream):
    """The archive that ``bundle`` wrote. ``to_arrow``, ``to_pandas`` and ``to_polars`` make a table of its files.

    Attributes: out: the archive. size: bytes. files: of the archive, sorted by name. ok: whether verify found no error.

    Examples:
    >>> report = rocketstore.bundle("demo", "demo.zip")
    >>> report.ok, [file.name for file in report.files][-2:]
    (True, ['verify.json', 'versions.json'])
    """

    out: Path
    size: int
    files: tuple[BundledFile, ...]
    ok: bool

    def _preview(self) -> Preview:
        title = f"BundleReport: {format_count(len(self.files), 'file')} in {str(self.out)!r}, {self.size:,} bytes"
        return Preview(title, BundledFile._fields, first_of(self.files), width=WIDE_CELL)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the files as an Arrow stream."""
        return export_rows(BUNDLED_FIELDS, self.files)


def bundle(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    config: StoreConfig | None = None,
    progress: Progress = False,
) -> BundleReport:
    """Write what a bug report about a store needs into an archive. Nothing in ``path`` is changed.

    The archive has the summary of the store, the report of ``verify``, the configuration, the versions, a list of the
    files, and the bytes around the first 64 damaged places of the log.

    No byte of a message's body is in it, no value of a property, and no credential. Of the bytes around damage only
    these are shown: the numbers in the heads of records, topics and names of properties that the configuration or
    RocketMQ define, and long runs of zeros. All other bytes are "x". In texts, words that are not known are "x". Of the
    configuration, values are "x" whose names are those of passwords, keys or users, and files of users and permissions
    are not read. Topics, groups, the addresses of hosts and the names of files are in it.

    Parameters
    ----------
    path : the root of a store. A broker may be writing it.
    out : the archive to write; its name ends in .tar.gz, .tgz or .zip. A file with this name is replaced.
    config : settings of the broker, as for ``open``.
    progress : as for ``verify``.

    Returns
    -------
    BundleReport.

    Raises
    ------
    ValueError : the name of ``out`` has another ending. StoreError : ``path`` has no store. OSError.

    Source: none.

    Examples:
    >>> rocketstore.bundle("demo", "demo.tar.gz").out.name
    'demo.tar.gz'
    """
    archive = local_path(out)
    if not archive.name.endswith(FORMATS):
        raise ValueError(f"out={str(out)!r}: the name must end in one of {', '.join(FORMATS)}")
    survey = begin_entry("bundle", local_path(path), config)
    report = verify(path, config=config, progress=progress)
    files = sorted(_collect(survey, report))
    packed = _zip_of(files) if archive.name.endswith(".zip") else _tar_of(files)
    replace_file(archive, packed)
    rows = tuple(BundledFile(name, len(data), contents) for name, data, contents in files)
    return BundleReport(archive, len(packed), rows, report.ok)


def _collect(survey: Survey, report: VerifyReport) -> Iterator[tuple[str, bytes, str]]:
    """Yield the name, the bytes and the meaning of each file of the archive."""
    places = survey.local_places
    tables = BrokerConfig.open(places.root, survey.given)
    groups = {*tables.subscription_groups, *tables.consumer_offsets}
    yield "versions.json", encode(describe_versions()), "versions of rocketstore, Python and its packages"
    yield "files.json", encode(describe_files(places)), "the files of the store"
    with MessageStore.of_survey(survey) as store:
        topics = {*tables.topics, *_topics_of_queues(store)}
        known = _known_words(topics, groups)
        yield "state.json", encode(or_error(lambda: describe_state(places), known)), "checkpoint, abort and lock"
        yield "info.json", encode(or_error(lambda: describe_store(store, known), known)), "the summary and the queues"
        log = store.find_commit_log()
        for damage in read_damage(log, report.findings, topics) if log is not None else ():
            kinds = ", ".join(sorted({finding.kind for finding in damage.findings}))
            size = len(damage.data)
            contents = f"{size} bytes of the log from {damage.begin} on, bodies blanked: {kinds}"
            yield f"damage/{damage.name}", damage.data, contents
    yield "verify.json", encode(describe_findings(report, places, known)), "the findings of verify"
    settings = or_error(lambda: broker_settings(survey.given or survey.sizes.settings), known)
    yield "settings.json", encode(settings), "the broker's settings"
    for name, data in config_files(places, topics | groups):
        yield name, data, "configuration without credentials"


def _topics_of_queues(store: MessageStore) -> set[str]:
    """Return the topics that have queues. Of queues that cannot be listed no topic is known, and so none is shown."""
    with contextlib.suppress(*FAILURES):
        return {queue.topic for queue in store.queues()}
    return set()


def _known_words(topics: set[str], groups: set[str]) -> frozenset[str]:
    """Return the words that texts may have: names of topics and groups, and what findings mean."""
    meanings = [text for kind in KINDS.values() for text in (kind.meaning, kind.at_next_start)]
    return words_of(meanings) | topics | groups | KINDS.keys()


def _zip_of(files: list[tuple[str, bytes, str]]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, _ in files:
            archive.writestr(name, data)
    return target.getvalue()


def _tar_of(files: list[tuple[str, bytes, str]]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, data, _ in files:
            member: Any = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), int(time.time())
            archive.addfile(member, io.BytesIO(data))
    return target.getvalue()
