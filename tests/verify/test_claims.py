"""Each sentence of verify about a broker is held against RocketMQ."""

from pathlib import Path

import pytest
from support.claims import CLAIMS, NOTHING

from rocketstore.verify.kinds import KINDS

INTEROP = Path(__file__).parent.parent / "interop"


def test_every_kind_says_what_holds_its_sentence():
    assert set(CLAIMS) == set(KINDS)


@pytest.mark.parametrize("kind", CLAIMS)
def test_what_holds_a_sentence_is_there(kind):
    held_by = CLAIMS[kind]
    assert held_by == NOTHING or held_by.startswith("Source: ") or (INTEROP / f"{held_by}.py").is_file()
