"""Open the commit log of a store with all options that its configuration has for it."""

from __future__ import annotations

from typing import Any

from rocketstore.config import StoreConfig
from rocketstore.disk.remote.remote_file_queue import open_queue
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.end_evidence import EndEvidence, UnfinishedRecords
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

    Directories that do not exist are left out.

    Parameters: may_be_missing: open an empty log if no directory exists. whole_to: nobody writes before this physical
    offset. trusts_file_times: False if the last record may be half written, although its file is old. evidence: tells
    where a broker ends the log; None to read all records, also old ones. unfinished: records to leave out.
    Raises: FileNotFoundError if no directory exists; OSError; StoreError.
    """
    directories = [path for path in places.log_directories if path.is_dir()]
    # The root has no files of a log.
    instead = [places.root] if may_be_missing else places.log_directories
    queue = open_queue(directories or instead, mapped_file_size=config.mapped_file_size_commit_log)
    log = CommitLog(
        queue,
        log_options(config),
        whole_to=whole_to,
        trusts_file_times=trusts_file_times,
        evidence=evidence,
        unfinished=unfinished,
    )
    log.refresh()
    return log


def log_options(config: StoreConfig) -> dict[str, Any]:
    """Return the options of a configuration for the scanners of records."""
    return {"force_verify_prop_crc": config.force_verify_prop_crc, "message_delay_level": config.message_delay_level}
