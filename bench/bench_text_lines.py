"""JSON lines and CSV of messages, against polars writing the same rows. polars uses all cores of the machine."""

import contextlib
import csv
import io
import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import rocketstore
from rocketstore import StoreConfig
from rocketstore.cli.group import rocketstore as commands
from rocketstore.messages.text_lines import batch_lines
from rocketstore.messages.text_rows import row_names

pl = pytest.importorskip("polars", reason="needs polars, which writes the same rows")
MESSAGES, PART, TOPICS, GOAL = 200_000, 100_000, 10, 0.6
BODY = b'{"id": %d, "name": "caf\xc3\xa9 %d", "items": [%d, 2, 3], "text": "the quick brown fox jumps over the dog"}'
FORMS = ["json", "csv"]


@pytest.fixture(scope="module")
def root(scratch):
    """A store whose messages have a key, a tag and a body of JSON of some 100 bytes, in many full log files."""
    root = scratch / "text-lines"
    with rocketstore.open(root, "a", config=StoreConfig(mapped_file_size_commit_log=16 << 20)) as writer:
        for begin in range(0, MESSAGES, PART):
            writer.put_messages(messages(np.arange(begin, begin + PART)))
    yield root
    shutil.rmtree(root)


def messages(numbers):
    texts = pa.array(numbers).cast(pa.string())
    topics, tags = pa.array([f"Topic{i}" for i in range(TOPICS)]), pa.array(["paid", "sent", "open"])
    return pa.table(
        {
            "topic": topics.take(pa.array(numbers % TOPICS)),
            "tags": tags.take(pa.array(numbers % 3)),
            "keys": pa.ListArray.from_arrays(np.arange(len(numbers) + 1, dtype=np.int32), texts),
            "body": pa.array([BODY % (n, n, n) for n in numbers.tolist()], pa.binary()),
        }
    )


@pytest.fixture(scope="module")
def batches(root):
    with rocketstore.open(root) as store:
        yield list(store.scan(batch_size=8192))


@pytest.fixture(scope="module")
def frames(batches):
    """The same rows for polars: JSON has structs in place of maps; CSV, where polars has neither, their text."""
    frame = pl.concat([pl.DataFrame(batch) for batch in batches]).with_columns(
        pl.col("body").cast(pl.String),
        pl.col("bornTimestamp", "storeTimestamp").cast(pl.Int64),
        bodyBase64=pl.lit(None, pl.String),
        bodyError=pl.lit(None, pl.String),
    )
    keys = [value for batch in batches for value in batch.keys]
    properties = [value for batch in batches for value in batch.properties]
    return {
        "json": frame.with_columns(pl.DataFrame(properties).to_struct("properties")).rechunk(),
        "csv": frame.with_columns(
            keys=pl.Series(map(json.dumps, keys)), properties=pl.Series(map(json.dumps, properties))
        ).rechunk(),
    }


def write_lines(batches, form, file):
    if form == "csv":
        file.write(",".join(row_names()).encode() + b"\n")
    for batch in batches:
        for text in batch_lines(batch, row_names(), is_csv=form == "csv"):
            file.write(text)


def write_frame(frames, form, file):
    (frames[form].write_ndjson if form == "json" else frames[form].write_csv)(file)


def run(command, root, form, target):
    """Run a command of the command line in this process. It writes a new file."""
    target.unlink(missing_ok=True)
    target.with_suffix(".out").unlink(missing_ok=True)
    words = [command, root, *([target] if command == "export" else []), "--format", form]
    words += ["--since", "0", "--limit", MESSAGES] if command == "query" else []
    with (
        target.with_suffix(".out").open("w") as out,
        contextlib.redirect_stdout(out),
        Path(os.devnull).open("w") as notes,
        contextlib.redirect_stderr(notes),
    ):
        commands.main([str(word) for word in words], standalone_mode=False)
    return target if command == "export" else Path(out.name)


def rows(text, form):
    if form == "json":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(io.StringIO(text.decode(), newline="")))


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def in_memory(write, source, form):
    file = io.BytesIO()
    write(source, form, file)
    return file.getvalue()


@pytest.mark.parametrize("form", FORMS)
def test_both_write_the_same_rows(form, root, batches, frames, scratch):
    expected = rows(in_memory(write_frame, frames, form), form)
    assert len(expected) == MESSAGES
    assert rows(in_memory(write_lines, batches, form), form) == expected
    for command in ("export", "cat", "query"):
        assert rows(run(command, root, form, scratch / "rows").read_bytes(), form) == expected


@pytest.mark.parametrize("form", FORMS)
def test_lines_of_columns(pairs, batches, frames, form):
    pairs(
        f"{form} of columns",
        MESSAGES,
        lambda: in_memory(write_lines, batches, form),
        lambda: seconds(lambda: in_memory(write_frame, frames, form)),
        f"polars, {form}",
        GOAL,
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", ["export", "cat", "query"])
def test_commands(pairs, root, frames, scratch, form, command):
    """A command also reads the store. polars writes what it has in memory. Both write a new file; export flushes it."""

    def write():
        (scratch / "polars").unlink(missing_ok=True)
        with (scratch / "polars").open("wb") as file:
            write_frame(frames, form, file)
            file.flush()
            if command == "export":
                os.fsync(file.fileno())

    pairs(
        f"{command}, {form}",
        MESSAGES,
        lambda: run(command, root, form, scratch / "rows"),
        lambda: seconds(write),
        f"polars, {form}",
        GOAL,
    )
