"""`rl` itself: the table of its commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from alphaswarm_rl.cli.lazy import Entry, LazyGroup
from alphaswarm_rl.cli.reporting import guarded

ENTRIES = {
    "train": Entry("train:train", "Train a spec's agent, judge it, and leave a checkpoint."),
    "evaluate": Entry("evaluate:evaluate", "Judge a run's policy, or a spec's, on the evaluation window."),
    "eval": Entry("evaluate:evaluate", "Judge a run's policy, or a spec's, on the evaluation window.", "evaluate"),
    "replay": Entry("evaluate:replay", "Feed a run's policy another window or seed, under its pinned version."),
    "backtest": Entry("backtest:backtest", "Play a policy on a backtest engine, one episode over the whole window."),
    "resume": Entry("train:resume", "Go on with an interrupted, halted or failed training run."),
    "tune": Entry("tune:tune", "Search a spec's hyper-parameters; every trial is an ordinary run."),
    "infer": Entry("infer:infer", "Answer observations with a trained policy, one JSON line each."),
    "decide": Entry(
        "decide:decide", "Decide with a trained policy what to hold: target weights after every stage, and orders."
    ),
    "halt": Entry("halt:halt", "Use the kill switch: halt the platform, a bot or a run, release it, look at it."),
    "runs": Entry("runs:runs", "List, show, follow, export and remove runs."),
    "compare": Entry(
        "compare:compare",
        "Compare runs: measures with bootstrap intervals, were they judged alike, how do their specs differ.",
    ),
    "models": Entry("models:models", "Find, judge, promote and prune trained models."),
    "specs": Entry("specs:specs", "List the specs in the ledger and their versions."),
    "spec": Entry("specs:spec", "Validate, hash, show and compare specs."),
    "data": Entry("data:data", "Look at market data: what there is, and what is wrong with it."),
    "audit": Entry("audit:audit", "Audit a spec: does anything in it know the future?"),
    "bench": Entry("bench:bench", "Measure this installation, beside its peers where they are installed."),
    "components": Entry("components:components", "List the components that specs can name, and their parameters."),
    "options": Entry("options:options", "List every option with its ENV name, flag and Nix name."),
    "sql": Entry("sql:sql", "Ask recorded steps, runs and models in SQL."),
    "lake": Entry("lake:lake", "Look at the tables of recorded steps, deliver to them, tidy and verify them."),
    "store": Entry("store:store", "Look at what waits for the trackers of runs, and deliver it."),
    "db": Entry("db:db", "Upgrade the ledger's database, look at it, or say that it is the right one."),
    "doctor": Entry("doctor:doctor", "Check this installation and say what is wrong with it."),
    "completion": Entry("completion:completion", "Print a script that completes commands in a shell."),
}

_EPILOG = """\b
Exit codes:
  0  it went well
  1  a run failed, or something is broken
  2  wrong input, or a request that is refused
  3  halted: by the kill switch, SIGTERM or Ctrl-C
  4  another process has taken the run over: this one stood still for too long

\b
Every command takes --json: one JSON document on stdout, everything else on stderr.
"""


class RootGroup(LazyGroup):
    """The group at the top; whatever goes wrong below it ends here as a message and an exit code."""

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: object,
    ) -> int:
        """Runs a command line; in standalone mode the process ends with its exit code, otherwise it is returned."""
        arguments = list(sys.argv[1:] if args is None else args)

        def call() -> object:
            if any("\0" in word for word in arguments):  # no system passes one on, but a caller in this process may
                raise click.UsageError("an argument holds a NUL character")
            return super(RootGroup, self).main(arguments, prog_name, complete_var, standalone_mode=False, **extra)

        # Both are looked for in the raw arguments, because a mistake in those must be reported in the same way.
        code = guarded(call, as_json="--json" in arguments, debug="--debug" in arguments)
        if standalone_mode:
            sys.exit(code)
        return code


rl = RootGroup(
    "rl",
    ENTRIES,
    help="One YAML spec becomes a hash-locked, replayable reinforcement-learning experiment.",
    epilog=_EPILOG,
)
click.version_option(package_name="alphaswarm-rl", prog_name="rl")(rl)
