"""`rl backtest`."""

from __future__ import annotations

from typing import Any

import click

from alphaswarm_rl.cli.results import give_run, judging_options
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.verb import verb


@verb("backtest")
@click.argument("target", metavar="[RUN_OR_SPEC]", required=False)
@click.option("--model-id", type=int, metavar="N", help="Play a model of the registry instead.")
@click.option("--policy", metavar="ALIAS", help="Play a rule, such as equal_weight, in place of the agent.")
@click.option("--engine", metavar="ALIAS", default="native", show_default=True, help="Which engine plays.")
@click.option(
    "--sizing",
    type=click.Choice(["at_fill", "at_decision"]),
    help="When weights become units; default as the environment has it.",
)
@judging_options
def backtest(session: Session, **chosen: Any) -> None:
    """Play a policy on a backtest engine, one episode over the whole window.

    RUN_OR_SPEC is a run (its id, the beginning of it, or latest: the newest that has a policy), a YAML file or the name
    of a preset. The engine native does to the last bit what the environment does; backtrader is Backtrader's broker,
    with the extra backtest, and wants --sizing at_decision. The run of the backtest has the policy's run as its parent,
    its version, the engine among its arguments, its measures, and its positions and fills in the tables: rl runs fills.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.backtest import BacktestRequest, backtest

    request = BacktestRequest(**chosen, options=session.flags)
    give_run(session, backtest(session.settings, request, caller=session.caller))
