"""Checkpoints that earlier versions wrote are loaded for ever and answer as they did then."""

import json
from pathlib import Path

import pytest

from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.inference.policy_server import PolicyServer

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoints"


@pytest.mark.parametrize("record", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_it_still_answers_the_same(settings, record):
    golden = json.loads(record.read_text())
    loaded = load_checkpoint(record.with_suffix(""), expected_sha256=golden["sha256"])
    inference = PolicyServer.of(loaded, settings)
    assert [inference.answer(observation).actions.tolist() for observation in golden["observations"]] == golden[
        "actions"
    ]


def test_there_are_golden_checkpoints():
    assert len(list(GOLDEN.glob("*.json"))) >= 3
