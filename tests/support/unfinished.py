"""Writes of pieces, and processes that are killed in the middle of one."""

import contextlib
import os

import pyarrow as pa

from rocketstore import MessageBatch
from rocketstore.jobs.intent import prepared_path
from rocketstore.jobs.prepared_rows import ANY_QUEUE, PreparedRowsWriter
from rocketstore.log.log_writer import LogWriter
from rocketstore.store.write_job import write_pieces
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.survey import survey_store

BORN = 1_700_000_000_000
SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "queueId": pa.int32(),
        "body": pa.binary(),
        "keys": pa.list_(pa.string()),
        "tags": pa.string(),
        "properties": pa.map_(pa.string(), pa.string()),
        "bornTimestamp": pa.int64(),
    }
)


def table_of(rows):
    return pa.Table.from_pylist([{"bornTimestamp": BORN, "queueId": ANY_QUEUE, **row} for row in rows], SCHEMA)


def make_pieces(root, job, parts, config):
    """Encode parts, lists of lists of rows, as tasks do: a piece for each, a block for each list in it."""
    directory = prepared_path(root, job)
    directory.mkdir(parents=True)
    pieces = []
    for number, part in enumerate(parts):
        made = PreparedRowsWriter(directory / "tmp", survey_store(root, config).find_sized_config(), keeps_store=False)
        with contextlib.closing(made) as writer:
            for rows in part:
                writer.add(MessageBatch.of_arrow(table_of(rows)))
            pieces.append(writer.finish(directory / f"{number:06}.piece"))
    return pieces


def kill_at_append(root, job, pieces, number, store_timestamp=None, *, config=None, torn=False):
    """Have a process that writes pieces killed at its append of a block; torn: when half of its records are there."""
    append, left = LogWriter.append_encoded, iter(range(number))

    def killing(self, data, encoded, queues, store_timestamp):
        if next(left, None) is None:
            if torn:
                n = len(encoded) // 2
                append(self, data[: int(encoded["size"][:n].sum())], encoded[:n], queues, store_timestamp)
            os._exit(9)
        append(self, data, encoded, queues, store_timestamp)

    pid = os.fork()
    if pid == 0:
        try:
            LogWriter.append_encoded = killing
            write_pieces(StorePlaces.of(root), job, pieces, store_timestamp, config=config)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
