"""Sizes of index files that were given once: Spark reads them from config/rocketstore.json, as the library does."""

import shutil

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from support import planted

import rocketstore
from rocketstore import StoreConfig
from rocketstore.spark import build_index

pytestmark = pytest.mark.spark


@pytest.fixture
def unknown(tmp_path):
    """A store without an index and without saved sizes."""
    root = tmp_path / "store"
    planted.build("plain", root)
    shutil.rmtree(root / "index")
    (root / "config" / "rocketstore.json").unlink()
    return root


@pytest.mark.parametrize("policy", ["complete", "broker"])
def test_spark_builds_the_index_with_the_sizes_that_a_recovery_saved(spark, unknown, tmp_path, policy):
    rocketstore.recover(unknown, policy=policy, config=StoreConfig(**planted.SIZES))
    shutil.rmtree(unknown / "index", ignore_errors=True)  # a broker makes no index after a clean stop
    build_index(spark, unknown, tmp_path / "spark")
    rocketstore.rebuild(unknown, out=tmp_path / "library", consume_queue=False)
    built = {path.name: path.read_bytes() for path in (tmp_path / "spark").iterdir()}
    assert built == {path.name: path.read_bytes() for path in (tmp_path / "library" / "index").iterdir()}
    assert {len(data) for data in built.values()} == {40 + 4 * planted.SLOTS + 20 * planted.ITEMS}


def test_without_sizes_spark_gives_the_error_of_the_library(spark, unknown, tmp_path):
    with pytest.raises(ValueError, match="max_hash_slot_num") as of_library:
        rocketstore.rebuild(unknown, out=tmp_path / "library", consume_queue=False)
    with pytest.raises(ValueError, match="max_hash_slot_num") as of_spark:
        build_index(spark, unknown, tmp_path / "spark")
    assert str(of_spark.value) == str(of_library.value)
