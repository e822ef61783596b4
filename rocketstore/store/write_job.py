"""write_pieces: append the rows that several processes have encoded to a store, all of them or none."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.errors import CorruptFileError
from rocketstore.jobs.intent import WRITE_PREFIX, WriteIntent, intent_path, prepared_path
from rocketstore.jobs.prepared_rows import PreparedRows, read_blocks
from rocketstore.jobs.transactions import Transaction, last_version
from rocketstore.kernels.record_encoder import say_too_large
from rocketstore.logger import logger
from rocketstore.messages.put_rules import StoreTimestamp, illegal
from rocketstore.store.open_writer import open_writer
from rocketstore.store.writer import StoreWriter
from rocketstore.survey.places import LocalPlaces

END_FILE_MIN_BLANK_LENGTH = 8
ABANDONED = 7 * 24 * 3600  # seconds without a change after which a job counts as dead


def write_pieces(
    places: LocalPlaces,
    job: str,
    pieces: Sequence[PreparedRows],
    store_timestamp: StoreTimestamp = None,
    *,
    config: StoreConfig | None = None,
    transaction: Transaction | None = None,
) -> None:
    """Append the records of a job's pieces in order, and remove the pieces. A missing store is made.

    After an error or a crash none of the records stays: the next opening for writing cuts them off, unless another
    process has appended meanwhile. Readers see no record before all of them are written.

    Parameters: pieces: in ``prepared_path(root, job)``. store_timestamp: epoch ms; None for now; "given": the times in
    the pieces. transaction: committed with the write. If the application has committed this version or a later one,
    nothing is appended.
    Raises: StoreLockedError if a broker runs; OSError, StoreError, PutMessageError: nothing is appended.
    """
    root = places.root
    directory = prepared_path(root, job)
    is_done = False
    try:
        with contextlib.closing(open_writer("spark sink", root, "a", config)) as writer:
            if transaction is not None and transaction.version <= last_version(root, transaction.app):
                logger.info("%s: write %s is skipped: %s was committed before", root, job, transaction)
            elif pieces:
                intent = intent_of(writer, directory, job, pieces, store_timestamp)
                intent = intent._replace(transaction=transaction)
                intent.save(writer.place)
                writer.put_encoded(
                    (block for piece in pieces for block in read_blocks(directory, piece)), intent.store_timestamp
                )
                intent.fulfil(writer.place)
                is_done = True
            writer.place.require_in_place()  # the names of what is removed are listed by the path
            sweep_abandoned(root)
    except BaseException as error:
        if not (is_done and isinstance(error, Exception)):
            undo(places, config, error)
            raise
        # If the error were raised, the caller would write the rows again.
        logger.warning("%s: write %s is committed, but cleaning up after it failed: %r", root, job, error)
    shutil.rmtree(directory, ignore_errors=True)


def undo(places: LocalPlaces, config: StoreConfig | None, error: BaseException) -> None:
    """Cut off the records of a write that failed, now or when the store is opened for writing next."""
    if intent_path(places.root).exists():
        try:
            open_writer("spark sink", places.root, "a", config).close()
        except Exception as other:
            error.add_note(f"The next opening for writing cuts off the records of this write. It failed now: {other!r}")


def intent_of(
    writer: StoreWriter, directory: Path, job: str, pieces: Sequence[PreparedRows], store_timestamp: StoreTimestamp
) -> WriteIntent:
    """Return the intent to append these pieces. Raises: CorruptFileError, FileNotFoundError, PutMessageError."""
    config = writer.config
    for piece in pieces:
        path = directory / piece.name
        if path.stat().st_size != piece.file_size:
            raise CorruptFileError(path, 0, "file size", f"{piece.file_size} bytes were written")
    largest, size = max(piece.largest for piece in pieces), sum(piece.size for piece in pieces)
    room, length = largest + END_FILE_MIN_BLANK_LENGTH, config.mapped_file_size_commit_log
    if room > length:
        raise illegal(say_too_large(largest, length))
    files = size // max(length - room, 1) + 2  # no file but the last has room for the largest record left
    if store_timestamp is None:
        store_timestamp = time.time_ns() // 1_000_000
    given = None if isinstance(store_timestamp, str) else store_timestamp
    has_crc = config.enabled_append_prop_crc and Compat.of(config.compat).has_prop_crc
    begin = writer.phy_offset
    return WriteIntent(job, begin, begin + size + files * room, given, has_crc, list(pieces))


def sweep_abandoned(root: Path) -> None:
    """Remove the pieces of killed jobs. The store's lock is held, so nobody appends them now."""
    for path in root.glob(f"{intent_path(root).name}.*"):
        path.unlink()  # an intent that was not complete
    for directory in root.glob(f"{WRITE_PREFIX}*"):
        with contextlib.suppress(OSError):
            changed = max(path.stat().st_mtime for path in (directory, *directory.iterdir()))
            if time.time() - changed > ABANDONED:
                shutil.rmtree(directory)
