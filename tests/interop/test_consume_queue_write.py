"""rocketstore's consume queues against those that RocketMQ writes, recovers and cuts, file by file."""

import base64
import json

import pytest
from support import queue_ops

from interop import stores

pytestmark = pytest.mark.interop


def run(java, tmp_path, lives, **config):
    """Take the steps of lives in RocketMQ; return what it showed after each, life by life."""
    rows = []
    for number, life in enumerate(lives):
        queue = {"queue": number, "batch": life.queue.is_batch, "fileSize": life.file_size}
        rows += [{**queue, **as_json(step)} for step in life.steps]
    options = stores.options(**config)
    answers = iter(java.json_answers("queues", tmp_path / "java", json.dumps(options), rows=rows))
    return [[next(answers) for _ in life.steps] for life in lives]


def as_json(step):
    name, *rest = step
    if name == "damage":
        file, position, data = rest
        return {"step": name, "file": file, "position": position, "data": base64.b64encode(data).decode()}
    return {"step": name, **dict(zip(["rows" if name == "put" else "offset"], rest, strict=False))}


def state_of(answer):
    if "error" in answer:
        return answer["error"]
    files = ({name: base64.b64decode(data) for name, data in answer[key].items()} for key in ("files", "extFiles"))
    return queue_ops.State(answer["maxPhyOffset"], answer["min"], answer["max"], *files)


def check(java, tmp_path, lives, **config):
    answers = run(java, tmp_path, lives, **config)
    for number, life in enumerate(lives):
        for at, (step, state, answer) in enumerate(zip(life.steps, life.states, answers[number], strict=True)):
            same = state is None or state_of(answer) == state
            assert same, f"life {number}, step {at}: {step}, after {life.steps[:at]}"
    for number, life in enumerate(lives):
        queue_ops.check_writer(life, tmp_path / "ours" / str(number))


@pytest.fixture(params=["5.5.1", "5.5.0", "5.3.3"])
def release(request):
    return request.param


def lives(seed, release, count, **kind):
    return queue_ops.lives(f"{seed} {release}", count, release=release, **kind)


def test_queues_are_java_s_after_every_step(java_of, tmp_path, seed, release):
    """Corner 47."""
    check(java_of(release), tmp_path, lives(seed, release, 40))


def test_batch_queues_are_java_s_after_every_step(java_of, tmp_path, seed, release):
    check(java_of(release), tmp_path, lives(seed, release, 40, batch=True))


@pytest.mark.parametrize("ext_file_size", [24, 70, 150])
def test_queues_with_ext_units_are_java_s_after_every_step(java_of, tmp_path, seed, release, ext_file_size):
    made = lives(seed, release, 15, ext_file_size=ext_file_size)
    config = {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": ext_file_size}
    check(java_of(release), tmp_path, made, **config)
