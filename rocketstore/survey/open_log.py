"""Open the commit log of a store with all options that its configuration has for it."""

from __future__ import annotations

from rocketstore.config import StoreConfig
from rocketstore.log.commit_log import CommitLog
from rocketstore.survey.places import AnyPlaces

__all__ = ["open_log"]


def open_log(places: AnyPlaces, config: StoreConfig, *, may_be_missing: bool = False) -> CommitLog:
    """Open the commit log of a store for reading. Close it afterwards.

    Directories that do not exist are left out.

    Parameters: may_be_missing: open an empty log if no directory exists.
    Raises: FileNotFoundError if no directory exists; OSError; StoreError.
    """
    directories = [path for path in places.log_directories if path.is_dir()]
    # The root has no files of a log.
    instead = [places.root] if may_be_missing else places.log_directories
    return CommitLog.open(
        directories or instead,
        mapped_file_size=config.mapped_file_size_commit_log,
        force_verify_prop_crc=config.force_verify_prop_crc,
        message_delay_level=config.message_delay_level,
    )
