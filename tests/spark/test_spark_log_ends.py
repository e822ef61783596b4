"""Spark's rows of stores with damage and with cuts by RocketMQ's own classes, see support/log_ends.py."""

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from reference.log_end import judge
from support.log_ends import (
    CUT,
    CUT_THEN_MESSAGES,
    DAMAGE,
    DAMAGE_THEN_MESSAGES,
    KILLED,
    STOPPED,
    Cell,
    Ends,
    make_cell,
)
from support.spark_reads import read_table

RELEASE = "5.5.1"
CELLS = [
    Cell(state, event, "copied", RELEASE)
    for state in (STOPPED, KILLED)
    for event in (DAMAGE, DAMAGE_THEN_MESSAGES, CUT, CUT_THEN_MESSAGES)
]


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    return Ends(RELEASE, tmp_path_factory.mktemp("ends"))


def offsets_of(root, **options):
    return read_table(root, columns="phyOffset", mode="DROPMALFORMED", **options).column("phyOffset").to_pylist()


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_rows_end_at_a_cut_and_not_at_damage(cell, ends, tmp_path):
    made = make_cell(ends, cell, tmp_path / "store")
    judgement = judge(made.root, "stopped" if cell.state == STOPPED else "crashed")
    found = offsets_of(made.root)
    assert offsets_of(made.root, minPartitions="4") == found
    bad_bodies = {offset for offset, _ in made.damaged}  # which are read as they are
    assert [offset for offset in found if offset not in bad_bodies] == [placed.offset for placed in judgement.records]
