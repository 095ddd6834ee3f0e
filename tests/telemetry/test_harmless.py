"""Telemetry changes nothing that a run computes, and is not there while it is off."""

import random
import subprocess
import sys

import numpy as np
import pytest

from alphaswarm_rl.runtime import RLRuntime
from tests.runtime.conftest import tiny
from tests.telemetry.conftest import on

EVERYTHING = {"metrics": {"granularity": "step"}, "traces": {"trace_steps": True}, "logs": {"level": "debug"}}


def test_checkpoints_have_the_same_bytes_with_and_without(tmp_path, http_receiver):
    spec = tiny(training={"eval_during_training": True, "eval_freq": 256})
    bare = RLRuntime(spec, on(tmp_path / "one")).train()
    for number, signals in enumerate(
        (EVERYTHING, {name: {**given, "endpoint": http_receiver.endpoint} for name, given in EVERYTHING.items()})
    ):
        watched = RLRuntime(spec, on(tmp_path / f"watched-{number}", **signals)).train()
        assert watched.checkpoint_sha256 == bare.checkpoint_sha256
        assert watched.metrics == bare.metrics


@pytest.mark.parametrize("protocol", ["file", "http", "grpc"])
def test_no_global_generator_is_drawn_from(run, http_receiver, grpc_receiver, protocol):
    receiver = {"file": None, "http": http_receiver, "grpc": grpc_receiver}[protocol]
    where = {} if receiver is None else {"endpoint": receiver.endpoint}
    signals = {"metrics": dict(where), "traces": dict(where), "logs": dict(where)}
    if protocol == "grpc":
        signals["metrics"]["protocol"] = "grpc"
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    run(**signals)
    run(traces={"endpoint": "http://127.0.0.1:9"}, metrics=signals["metrics"])  # one that is tried again
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


TRAIN = """
from alphaswarm_rl import RLRuntime, Settings
from tests.runtime.conftest import tiny
spec = tiny(agent={"class": "random"})
RLRuntime(spec, Settings(home=HOME, registry={"enable": False})).train()
"""
HELP = """
import sys
from alphaswarm_rl.cli import main
sys.argv = ["rl", "--help"]
try:
    main()
except SystemExit as end:
    assert end.code == 0
"""
CHECK = """
import sys
loaded = [name for name in sys.modules if name.startswith("opentelemetry")]
assert not loaded, loaded[:3]
"""


@pytest.mark.parametrize(
    "code",
    ["import alphaswarm_rl", "import alphaswarm_rl\nalphaswarm_rl.span('x')(print)()", HELP, TRAIN],
    ids=["import", "span", "help", "run"],
)
def test_nothing_of_opentelemetry_is_imported_while_it_is_off(code, tmp_path):
    program = f"HOME = {str(tmp_path / 'home')!r}\n{code}\n{CHECK}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
