"""What a data engineer types first in Python, before reading a page, works, or the error has the line to type."""

import contextlib
import io
import sys

import pytest
from tasks import Python, Refused, tries_of

import rocketstore
from rocketstore import Message, StoreConfig


@pytest.fixture
def names(directory):
    """What the tries may use."""
    modules = {name: pytest.importorskip(name) for name in ("duckdb", "json", "pandas", "polars", "pyarrow.dataset")}
    with rocketstore.open("big") as s, rocketstore.open("damaged") as damaged, rocketstore.open("batchcq") as batches:
        yield {
            "rocketstore": rocketstore,
            "s": s,
            "damaged": damaged,
            "batches": batches,
            "messages": s.dataset(),
            "pl": modules["polars"],
            "pyarrow": sys.modules["pyarrow"],
            **modules,
        }


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("task", "line"), tries_of(Python), ids=lambda value: str(value)[:60])
def test_a_first_line_of_python_works(names, task, line, recwarn):
    with contextlib.redirect_stderr(io.StringIO()):  # of a progress bar
        answer = repr(eval(line.typed, names))
    assert line.shown in "\n".join([answer, *(str(warning.message) for warning in recwarn)])


@pytest.mark.parametrize(("task", "line"), tries_of(Refused), ids=lambda value: str(value)[:60])
def test_a_wrong_first_line_of_python_says_what_to_type(names, task, line):
    with pytest.raises((AttributeError, TypeError, ValueError, OSError, rocketstore.StoreError)) as raised:
        eval(line.typed, names)
    assert line.shown in str(raised.value)


def test_a_test_store_is_written_from_dicts_and_times(tmp_path):
    rows = [{"topic": "orders", "body": b"1", "tags": "paid"}, {"topic": "orders", "body": "2", "keys": "order-2"}]
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        result = store.put_messages(rows, store_timestamp=[1_700_000_000_000, 1_700_000_001_000])
        store.put_message(Message("orders", b"3"))
    assert len(repr(result)) < 2000
    with rocketstore.open(tmp_path) as store:
        assert [message.body for message in store["orders"]] == [b"1", b"2", b"3"]
