"""Open the commit log of a store with all options that its configuration has for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

from rocketstore.config import StoreConfig
from rocketstore.disk.remote.remote_file_run import open_file_run
from rocketstore.disk.storage import held_lists
from rocketstore.disk.store_path import StorePath
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.dledger import FRAMING, UncommittedEntries
from rocketstore.log.end_evidence import EndEvidence, UnfinishedRecords
from rocketstore.log.log_end import StoreState
from rocketstore.survey.formats import find_dledger, find_log_directories
from rocketstore.survey.places import AnyPlaces


def open_log(
    places: AnyPlaces,
    config: StoreConfig,
    *,
    may_be_missing: bool = False,
    whole_to: int = 0,
    trusts_file_times: bool = True,
    evidence: EndEvidence | None = None,
    unfinished: UnfinishedRecords | None = None,
) -> CommitLog:
    """Open the commit log of a store for reading. Close it afterwards.

    Directories that do not exist are left out. DLedger's log is read with the older log of plain files below it.

    Parameters: may_be_missing: open an empty log if no directory exists. whole_to: nobody writes before this physical
    offset. trusts_file_times: False if the last record may be half written, although its file is old. evidence: tells
    where a broker ends the log; None to read all records, also old ones. unfinished: records to leave out.
    Raises: FileNotFoundError if no directory exists, or none of DLedger's log; OSError; StoreError.
    """
    with held_lists(places.root):  # each directory is listed once
        dledger = find_dledger(places, config)
        directories = list_log_directories(places, config)
        # The root has no files of a log.
        instead = [places.root] if may_be_missing else find_log_directories(places, config)
        file_run = open_file_run(directories or instead, mapped_file_size=config.mapped_file_size_commit_log)
        options = log_options(config)
        if dledger is not None:
            options |= {"framing": FRAMING, "entries_begin": dledger.find_entries_begin(file_run)}
        return CommitLog(
            file_run,
            options,
            whole_to=whole_to,
            trusts_file_times=trusts_file_times,
            evidence=evidence,
            unfinished=unfinished,
        )


def list_log_directories(places: AnyPlaces, config: StoreConfig) -> list[StorePath]:
    """Return the directories of the log that exist, those of DLedger's log first.

    Raises: FileNotFoundError if none of DLedger's directories exists. A log of plain files is older than DLedger's.
    """
    dledger = find_dledger(places, config)
    found = [path for path in find_log_directories(places, config) if path.is_dir()]
    if dledger is not None and not any(path in found for path in dledger.data):
        reason = f"{os.strerror(errno.ENOENT)}: the broker's log is DLedger's, and was here"
        raise FileNotFoundError(errno.ENOENT, reason, str(dledger.data[0]))
    return found


def log_options(config: StoreConfig) -> dict[str, Any]:
    """Return the options of a configuration for the scanners of records."""
    return {"force_verify_prop_crc": config.force_verify_prop_crc, "message_delay_level": config.message_delay_level}


def find_uncommitted(
    places: AnyPlaces, config: StoreConfig, find_store_state: Callable[[], StoreState]
) -> UncommittedEntries | None:
    """Return what finds the entries of DLedger's log that are not committed; None for a log of plain files.

    Parameters: find_store_state: finds how the last writer left the store.
    """
    dledger = find_dledger(places, config)
    return None if dledger is None else UncommittedEntries(dledger, find_store_state)
