"""The paths of a store."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from rocketstore import BatchConsumeQueue, ConsumeQueue, ConsumeQueueExt, StoreConfig
from rocketstore.survey.places import StorePlaces

ROOT = Path("/store")


def test_the_log_is_in_the_root_unless_the_configuration_says_so():
    assert StorePlaces.of(ROOT).log_directories == (ROOT / "commitlog",)
    assert StorePlaces.of(ROOT, StoreConfig()) == StorePlaces.of(ROOT)
    places = StorePlaces.of(ROOT, StoreConfig(store_path_commit_log="/a,/b"))
    assert (places.log_directories, places.default_log) == ((Path("/a"), Path("/b")), ROOT / "commitlog")


@pytest.mark.parametrize(
    ("kind", "name"),
    [(ConsumeQueue, "consumequeue"), (BatchConsumeQueue, "batchconsumequeue"), (ConsumeQueueExt, "consumequeue_ext")],
)
def test_a_queue_is_below_the_directory_of_its_kind(kind, name):
    places = StorePlaces.of(ROOT)
    assert places.queues(kind) == ROOT / name
    assert places.topic(kind, "T") == ROOT / name / "T"
    assert places.queue(kind, "T", 3) == ROOT / name / "T" / "3"
    assert ROOT / name in places.queue_parts


def test_places_are_those_of_rocketmq():
    places = StorePlaces.of(ROOT)
    small = [places.checkpoint, places.abort, places.lock, places.index, places.config]
    assert small == [ROOT / name for name in ("checkpoint", "abort", "lock", "index", "config")]
    assert places.config_file("topics.json") == ROOT / "config" / "topics.json"
    assert places.saved_settings == ROOT / "config" / "rocketstore.json"
    assert places.saved_cuts == ROOT / "rocketstore-cut"


def test_places_do_not_change():
    with pytest.raises(FrozenInstanceError):
        StorePlaces.of(ROOT).root = Path("/other")


def test_looking_for_the_log_of_dledger_lists_only_the_root(tmp_path):
    (tmp_path / "dledger-n0").mkdir()
    (tmp_path / "other" / "dledger-n1").mkdir(parents=True)
    assert StorePlaces.of(tmp_path).dledger_logs(path.name for path in tmp_path.iterdir()) == [tmp_path / "dledger-n0"]
