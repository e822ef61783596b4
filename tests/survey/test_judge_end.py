"""Where a log ends, decided from what the files of its store say: the table of states and proofs."""

import dataclasses

import pytest

from rocketstore.log.log_end import EndCandidate, StoreState, Why
from rocketstore.survey.judge_end import CutProof, RunProof, judge_end

CUT = CutProof(
    is_in_last_file=True,
    has_trace=False,
    is_stored_later=True,
    is_confirmed_behind=False,
    gap=200,
    do_times_rise=True,
    is_born_later=True,
    is_joined=True,
)
ALONE = dataclasses.replace(CUT, do_times_rise=False, is_born_later=False, is_joined=False)
OLD = RunProof(is_in_last_file=True, are_later_old=True)
NEW = RunProof(is_in_last_file=True, are_later_old=False)
STOPPED, RUNNING, CRASHED = StoreState
TABLE = [
    # state, record behind, proof, why
    (STOPPED, False, None, Why.COMPLETE),
    (RUNNING, False, None, Why.GROWING),
    (CRASHED, False, None, Why.TORN),
    (STOPPED, True, CUT, Why.CUT),
    (STOPPED, True, None, Why.DAMAGED),
    (STOPPED, True, ALONE, Why.DAMAGED),
    (CRASHED, True, CUT, Why.DAMAGED),
    (CRASHED, True, None, Why.DAMAGED),
    (RUNNING, True, OLD, Why.GROWING),
    (RUNNING, True, NEW, Why.DAMAGED),
    (RUNNING, True, None, Why.DAMAGED),
    (RUNNING, True, CUT, Why.DAMAGED),
    (STOPPED, True, OLD, Why.DAMAGED),
]


@pytest.mark.parametrize(("state", "has_later", "proof", "why"), TABLE)
def test_the_end_is_decided_by_state_and_proof(state, has_later, proof, why):
    candidate = EndCandidate(1000, 900, 1200 if has_later else None)
    assert judge_end(candidate, proof, state) == (1000, 900, why)


@pytest.mark.parametrize(
    "change",
    [
        {"is_in_last_file": False},
        {"has_trace": True},
        {"is_stored_later": False},
        {"is_confirmed_behind": True},
        {"do_times_rise": False},
        {"is_born_later": False},
        {"is_joined": False},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_condition_of_the_proof_is_needed(change):
    assert CUT.is_complete
    assert not dataclasses.replace(CUT, **change).is_complete


@pytest.mark.parametrize(("change", "is_proved"), [({"gap": 91}, True), ({"gap": 92}, False), ({"gap": 0}, False)])
def test_bytes_that_no_record_fits_into_are_a_proof(change, is_proved):
    assert dataclasses.replace(ALONE, **change).is_complete == is_proved


def test_a_queue_offset_that_was_given_again_is_a_proof():
    assert dataclasses.replace(ALONE, is_number_repeated=True).is_complete


@pytest.mark.parametrize("name", ["is_in_last_file", "has_trace", "is_stored_later", "is_confirmed_behind"])
def test_no_sign_is_a_proof_against_the_first_conditions(name):
    signs = dataclasses.replace(CUT, gap=50, is_number_repeated=True)
    assert not dataclasses.replace(signs, **{name: not getattr(signs, name)}).is_complete
