"""``metrics``: the numbers of other methods, in a text that a parser of OpenMetrics accepts."""

import json
import re
import shutil

import pytest
from reference.message_store import make_store
from support import states

import rocketstore

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (-?[0-9.e+]+)')


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return states.unpack("pending", tmp_path_factory.mktemp("states"))


def parse(text):
    """The samples of a text by name and labels, as its grammar has them."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""]
    found, types = {}, []
    for line in lines[:-2]:
        if line.startswith("# TYPE"):
            types.append(line.split()[2])
        elif not line.startswith("# HELP"):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert name == types[-1]
            found[name, labels] = float(value)
    assert len(types) == len({*types})
    return found


def test_metrics_have_the_numbers_of_the_store(root):
    with rocketstore.open(root) as store:
        found = parse(store.metrics().text())
        assert found["rocketstore_messages", None] == store.summary().messages
        for lag in store.consumer_lag():
            labels = f'group="{lag.group}",topic="{lag.topic}",queue="{lag.queue_id}"'
            assert found["rocketstore_consumer_lag_messages", labels] == lag.lag
        for part in store.du():
            labels = f'part="{part.part}",path="{part.path}"'
            assert found["rocketstore_part_disk_bytes", labels] == part.disk_bytes
        waiting = [value for (name, _), value in found.items() if name == "rocketstore_pending_messages"]
        assert sum(waiting) == len(store.pending())
    assert found["rocketstore_read_problems", None] == 0
    assert found["rocketstore_running", None] == 0


def test_names_of_any_kind_are_escaped_in_labels(tmp_path):
    root = tmp_path / "store"
    make_store(root, [{"topic": "T", "body": b"x", "properties": {}}])
    (root / "config").mkdir()
    offsets = {'T@a"b\\c\nd': {"0": 0}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    with rocketstore.open(root) as store:
        found = parse(store.metrics().text())
    assert found["rocketstore_consumer_lag_messages", r'group="a\"b\\c\nd",topic="T",queue="0"'] == 1


def test_a_part_that_cannot_be_read_is_counted(root, tmp_path):
    copy = shutil.copytree(root, tmp_path / "store")
    for path in (copy / "index").iterdir():
        path.write_bytes(b"short")
    with rocketstore.open(copy) as store:
        found = store.metrics()
    assert found.reasons
    assert parse(found.text())["rocketstore_read_problems", None] == len(found.reasons)


def test_metrics_convert_to_a_table(root):
    pytest.importorskip("pyarrow")
    with rocketstore.open(root) as store:
        found = store.metrics()
    assert found.to_arrow()["value"].to_pylist() == [sample.value for sample in found]
