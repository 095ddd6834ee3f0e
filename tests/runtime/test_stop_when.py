"""A training halts, with a checkpoint, when whoever hears its events has a reason."""

from alphaswarm_rl.runtime import RLRuntime
from tests.runtime.conftest import tiny


def test_a_reason_halts_the_run_with_a_checkpoint_and_can_be_resumed(settings, ledger):
    heard = []

    def enough(event):
        heard.append(event.stage)
        return "enough was seen" if event.stage == "eval.step" else None

    spec = tiny(training={"eval_during_training": True, "eval_freq": 128})
    result = RLRuntime(spec, settings, stop_when=enough).train()
    assert (result.status, result.halt_reason) == ("halted", "enough was seen")
    assert result.timesteps == 128
    row = ledger.run(result.run_id)
    assert row.checkpoint is not None
    assert heard == [event.stage for event in ledger.events(row.id)]
    assert RLRuntime.from_run(row.id, settings).resume().status == "completed"


def test_without_a_reason_nothing_changes(settings):
    whole, heard = RLRuntime(tiny(), settings).train(), RLRuntime(tiny(), settings, stop_when=lambda _: None).train()
    assert (heard.status, heard.metrics) == ("completed", whole.metrics)
