"""OpenedLog: the commit log of a store, opened when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketstore.config import StoreConfig
from rocketstore.disk.storage import is_remote
from rocketstore.errors import StoreClosedError, UnsupportedFormatError
from rocketstore.jobs.intent import UncommittedRecords
from rocketstore.lazy import lazy_property
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.end_evidence import UnfinishedRecords
from rocketstore.log.log_end import StoreState
from rocketstore.survey.cut_proof import StoreEvidence
from rocketstore.survey.open_log import find_uncommitted, open_log
from rocketstore.survey.places import AnyPlaces

if TYPE_CHECKING:
    from rocketstore.store.writer import StoreWriter


class OpenedLog:
    """The commit log of a store."""

    def __init__(self, places: AnyPlaces, config: StoreConfig, writer: StoreWriter | None, *, leftovers: bool) -> None:
        """Parameters: writer: None to read only. leftovers: whether old records behind the end are read too."""
        self._places = places
        self._config = config
        self._writer = writer
        self._leftovers = leftovers
        self._closed = False

    @lazy_property
    def log(self) -> CommitLog:
        """The log, as it was opened first. Raises: FileNotFoundError; UnsupportedFormatError; StoreClosedError."""
        if self._closed:
            raise StoreClosedError(f"{self._places.root} is closed")
        if self._writer is not None:
            return open_log(self._places, self._config, whole_to=self._writer.phy_offset)
        evidence = None if self._leftovers else self._evidence
        return open_log(self._places, self._config, evidence=evidence, unfinished=self._find_unfinished())

    def find(self) -> CommitLog | None:
        """Return the log, None if it is missing or in an unsupported format."""
        try:
            return self.log
        except (OSError, UnsupportedFormatError):
            return None

    @property
    def is_bounded(self) -> bool:
        """Whether the log ends where a broker ends it."""
        is_read = self._writer is None and not self._leftovers
        return is_read and self._evidence.find_store_state() != StoreState.CRASHED

    @lazy_property
    def _evidence(self) -> StoreEvidence:
        return StoreEvidence(self._places, self._config)

    def _find_unfinished(self) -> UnfinishedRecords | None:
        """Return what finds the records at the end of the log that readers leave out."""
        if not self._leftovers:
            uncommitted = find_uncommitted(self._places, self._config, self._evidence.find_store_state)
            if uncommitted is not None:
                return uncommitted
        root = self._places.root
        return None if is_remote(root) else UncommittedRecords(root)  # Spark's sink writes local stores

    def close(self) -> None:
        """Close the log if it was opened. Later it is not opened any more."""
        self._closed = True
        opened = self.__dict__.get("log")
        if opened is not None:
            opened.close()
