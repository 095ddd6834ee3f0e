"""What a trained policy would trade now: from bars so far and an account to target weights and orders."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.events import NOBODY, Caller, Notice
from alphaswarm_rl.operations.operation import RequestError, operation
from alphaswarm_rl.settings import Settings

if TYPE_CHECKING:
    from alphaswarm_rl.inference.account import Account
    from alphaswarm_rl.inference.decision_stream import TradingDecision
    from alphaswarm_rl.inference.policy_server import PolicyServer

_MODEL = "model:"


class DecideRequest(Data):
    """Who decides, on which bars, for which account.

    Attributes:
        run_or_model: A run (its id, the beginning of it, or latest), model:ID, or model:NAME by an alias.
        asof: The date of the decision, ISO: bars that were not over then are not there; null with `bars`: its last bar.
        bars: A CSV or Parquet file of all bars so far, read by the run's column rules; null: the run's data pipeline.
        positions: A CSV or JSON file of what is held.
        cash: The money; without positions nothing else is held.
        start: The first date of the window that is traded; null: of the policy's evaluation.
        unvalidated: Whether a model that did not pass its latest validation may decide.
        deterministic: Whether it acts without drawing; null: as the spec evaluates.
        options: Options of the table by key.
    """

    run_or_model: str
    asof: str | None = None
    bars: Path | None = None
    positions: Path | None = None
    cash: float | None = None
    start: str | None = None
    unvalidated: bool = False
    deterministic: bool | None = None
    options: JsonMapping = field(default_factory=dict)


class DecidedAsset(Data):
    """One asset of a decision.

    Attributes:
        symbol: Which.
        held: Part of the equity that is held.
        by_stage: The target after the action, each portfolio stage and the turbulence gate, in that order.
        target: The last of them: what is to be held, or with shares to be traded; null: left as it is.
    """

    symbol: str
    held: float
    by_stage: tuple[float | None, ...]
    target: float | None


class DecidedOrder(Data, unless_null=("stop_loss", "take_profit")):
    """An order.

    Attributes:
        client_id: Its name, the same whenever the same decision is made again.
        symbol: What is traded.
        side: buy or sell.
        quantity: Units.
        type: The type of the order.
        time_in_force: When it is to be filled.
        stop_loss: The price of the stop leg.
        take_profit: The price of the limit leg.
        reason: Why it is made.
    """

    client_id: str
    symbol: str
    side: str
    quantity: float
    type: str
    time_in_force: str
    stop_loss: float | None
    take_profit: float | None
    reason: str


class SkippedAsset(Data):
    """An asset whose order is not made, or is less than its target asks for: why, in a word and in a sentence."""

    symbol: str
    reason: str
    detail: str


class Decided(Data, unless_null=("model_id",)):
    """What a policy decided at the close of one bar.

    Attributes:
        bar: The bar.
        known_at: When all of it was known.
        equity: The account's value at its close.
        cash: Its money.
        targets: What targets are: weights, shares or position.
        stages: What they come from, in order.
        assets: The targets by symbol.
        cash_target: The weight that they leave to cash; null unless they are weights.
        orders: Orders, reductions first.
        skipped: What is not ordered, or not in full.
        indicative: Whether units are made at the fill, so that orders only show what they would be at the last close.
        history: Whether features come from the history that the run had: complete, short or unknown.
        run_id: The run that trained the policy; null where nobody knows it.
        model_id: The registered model that decided.
        checkpoint_sha256: Its checkpoint.
    """

    bar: str
    known_at: str
    equity: float
    cash: float
    targets: str
    stages: tuple[str, ...]
    assets: tuple[DecidedAsset, ...]
    cash_target: float | None
    orders: tuple[DecidedOrder, ...]
    skipped: tuple[SkippedAsset, ...]
    indicative: bool
    history: str
    run_id: str | None
    model_id: int | None
    checkpoint_sha256: str


@operation("decide")
def decide(settings: Settings, request: DecideRequest, *, caller: Caller = NOBODY) -> Decided:
    """Decides with a trained policy what to hold: target weights after every stage, orders, and what is skipped."""
    from alphaswarm_rl.inference.account import Account
    from alphaswarm_rl.inference.account_file import read_account

    if request.asof is None and request.bars is None:
        raise RequestError("asof: say when, --asof DATE, or give the bars so far, --bars FILE")
    if request.positions is None and request.cash is None:
        raise RequestError("cash: say what the account has, --cash X or --positions FILE")
    if settings.infer.offline:
        caller.listen(Notice("offline: decisions are made whatever the kill switch says"))
    account = (
        Account(cash=float(request.cash or 0.0))
        if request.positions is None
        else read_account(request.positions, request.cash)
    )
    with ExitStack() as stack:
        server = stack.enter_context(_server(settings, request))
        return decided(server, request, account, caller)


def decided(server: PolicyServer, request: DecideRequest, account: Account, caller: Caller = NOBODY) -> Decided:
    """The decision of a policy that is served."""
    from alphaswarm_rl.inference.decision_data import bars_of_file, bars_of_run

    server.refuse_if_halted()  # before data are read
    policy = server.policy
    if request.bars is None:
        assert request.asof is not None
        bars = bars_of_run(policy, request.asof)
    else:
        bars = bars_of_file(policy, request.bars, request.asof)
    found = server.decide(bars, account, start=request.start)
    _warn(found, caller)
    return _result(found, account, server)


def _server(settings: Settings, request: DecideRequest) -> PolicyServer:
    from alphaswarm_rl.inference.policy_server import PolicyServer

    name = request.run_or_model
    if not name.startswith(_MODEL):
        if request.unvalidated:
            raise RequestError("unvalidated: it is for models: model:ID")
        run = _latest(settings) if name == "latest" else name
        return PolicyServer.of_run(settings, run=run, deterministic=request.deterministic)
    model = name.removeprefix(_MODEL)
    if re.fullmatch("[0-9]+", model):
        return PolicyServer.open(
            settings, model_id=int(model), unvalidated=request.unvalidated, deterministic=request.deterministic
        )
    if request.unvalidated:
        raise RequestError("unvalidated: an alias names validated models; give model:ID")
    return PolicyServer.open(settings, alias=model, deterministic=request.deterministic)


def _latest(settings: Settings) -> str:
    """The newest training run that has a checkpoint."""
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(settings) as ledger:
        runs = ledger.runs(target="train", limit=None)
    found = next((run.id for run in runs if run.checkpoint is not None and run.removed_at is None), None)
    if found is None:
        raise RunError("the latest run", "no run has a checkpoint yet", "Train one: rl train SPEC.")
    return found


def _warn(found: TradingDecision, caller: Caller) -> None:
    if found.history == "short":
        caller.listen(Notice("history: short: the bars start later than those of the run, and features may differ"))
    if found.indicative:
        caller.listen(Notice("indicative: units are made at the fill; orders are what they would be at the last close"))


def _result(found: TradingDecision, account: Account, server: PolicyServer) -> Decided:
    known = np.where(np.isfinite(found.by_stage), found.by_stage, np.nan)
    rows = [[None if np.isnan(value) else value for value in column.tolist()] for column in known.T]
    assets = tuple(
        DecidedAsset(symbol, float(held), tuple(row), row[-1])
        for symbol, held, row in zip(found.assets, found.held, rows, strict=True)
    )
    orders = tuple(
        DecidedOrder(
            order.client_id,
            order.symbol,
            order.side,
            order.quantity,
            order.type,
            order.time_in_force,
            order.stop_loss,
            order.take_profit,
            order.reason,
        )
        for order in found.orders
    )
    row = server.served_row
    return Decided(
        bar=shown(found.bar),
        known_at=shown(found.known_at),
        equity=found.equity,
        cash=float(account.cash),
        targets=found.targets,
        stages=found.stages,
        assets=assets,
        cash_target=1.0 - float(found.target.sum()) if found.targets == "weights" else None,
        orders=orders,
        skipped=tuple(SkippedAsset(each.symbol, each.reason, each.detail) for each in found.skipped),
        indicative=found.indicative,
        history=found.history,
        run_id=server.run_id,
        model_id=None if row is None else row.id,
        checkpoint_sha256=found.checkpoint_sha256,
    )
