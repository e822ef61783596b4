"""Numbers of damaged stores: an answer, or an error of the package or the system, and nothing else."""

import contextlib
import json
import random
import shutil
import warnings

import pytest
from reference.message_store import make_store

import rocketstore

ROUNDS = 6
QUESTIONS = {
    "parts": lambda store: store.du(),
    "topics": lambda store: store.du(by="topic"),
    "hours": lambda store: store.du(by="hour"),
    "tags": lambda store: store.du(by="tag", exact=True),
    "expiry": lambda store: store.expiry(hours=0),
    "count": lambda store: store.count("topic,tag,hour"),
    "unconsumed": lambda store: store.unconsumed("g", subscribe=["T", "U=x"]),
    "metrics": lambda store: store.metrics(),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    root = tmp_path_factory.mktemp("usage") / "store"
    draw = random.Random(1)
    tags = ("x", "y")
    messages = [
        {"topic": draw.choice("TU"), "queue_id": 0, "body": b"b" * 50, "properties": {"TAGS": draw.choice(tags)}}
        for _ in range(300)
    ]
    make_store(root, messages, file_size=16384)
    (root / "config").mkdir()
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": {"T@g": {"0": 20}}}))
    return root


def damage(root, draw):
    """Overwrite some bytes of some files, cut one off, or delete it."""
    paths = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)
    for path in draw.sample(paths, min(6, len(paths))):
        data = bytearray(path.read_bytes())
        place = draw.randrange(len(data))
        kind = draw.random()
        if kind < 0.1:
            path.unlink()
        elif kind < 0.2:
            path.write_bytes(data[:place])
        else:
            data[place : place + 8] = draw.randbytes(draw.choice([1, 4, 8]))
            path.write_bytes(data)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_damaged_stores_give_answers_or_errors(sound, tmp_path, number, seed):
    draw = random.Random(f"{seed} {number}")
    root = shutil.copytree(sound, tmp_path / "store")
    damage(root, draw)
    with warnings.catch_warnings(action="ignore"), rocketstore.open(root) as store:
        for question in QUESTIONS.values():
            with contextlib.suppress(rocketstore.StoreError, OSError, ValueError):
                answer = question(store)
                assert repr(answer)
                assert isinstance(answer.reasons, list)
