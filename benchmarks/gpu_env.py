"""Steps per second of the trading environments in torch, on a GPU.

    python benchmarks/gpu_env.py --num-envs 262144 --device cuda --steps 200
    python benchmarks/gpu_env.py --record steps.npz       # with Numba: what the NumPy form does
    python benchmarks/gpu_env.py --check steps.npz --device cuda

Needs NumPy, torch, gymnasium, pydantic and PyYAML; `--record` needs Numba as well.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from typing import Any

import numpy as np
import torch

from alphaswarm_rl.actions import integer_shares, softmax_weights
from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.envs import stock_portfolio, stock_trading
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.observations import covariance, portfolio_state, stacked, technical_indicators
from alphaswarm_rl.rewards import log_return, pnl

#: Imported so that their aliases are known where the package is not installed.
USED = (integer_shares, softmax_weights, covariance, portfolio_state, stacked, technical_indicators, log_return, pnl)
NAMES = (stock_trading.StockTrading.rl_alias, stock_portfolio.StockPortfolio.rl_alias)

REPEATS = 5
WARM_UP = 10
CHECKED_ENVS, CHECKED_STEPS = 512, 256


def synthetic_panel(bars: int = 2000, assets: int = 30, features: int = 8) -> MarketPanel:
    """Random walks with an open and a close, and features that are noise."""
    rng = np.random.default_rng(0)
    close = 100.0 * np.exp(np.cumsum(rng.normal(0.0002, 0.015, (bars, assets)), axis=0))
    arrays = {
        "timestamps": np.datetime64("2015-01-01") + np.arange(bars).astype("timedelta64[D]"),
        "assets": [f"A{index:02d}" for index in range(assets)],
        "close": close,
        "open": close * np.exp(rng.normal(0.0, 0.004, close.shape)),
    }
    values = rng.normal(size=(features, bars, assets)).astype(np.float32)
    return MarketPanel.from_arrays(arrays).with_features({f"f{index}": table for index, table in enumerate(values)})


def build(name: str, panel: MarketPanel, num_envs: int, fill: str, *, device: str | None, compiled: bool | None) -> Any:
    """The environment, in torch on a device, or in NumPy."""
    request = EnvRequest(
        num_envs=num_envs,
        seed=0,
        parts={"panel": panel},
        backend="torch" if device else "numpy",
        device=device or "cpu",
    )
    component = build_from_config({"class": name, "kwargs": {"fill": fill}}, kind="env")
    if device is None:
        return component.build(request)
    from alphaswarm_rl.envs.trading_torch import TorchTradingEnv

    return TorchTradingEnv(request, component.plan(request), compile=compiled)


def measure(name: str, panel: MarketPanel, arguments: argparse.Namespace) -> dict[str, Any]:
    """Environment steps per second: the median of several repeats after a warm-up."""
    compiled = {"auto": None, "yes": True, "no": False}[arguments.compile]
    env = build(name, panel, arguments.num_envs, arguments.fill, device=arguments.device, compiled=compiled)
    generator = torch.Generator(env.device).manual_seed(0)
    shape = (arguments.num_envs, *env.single_action_space.shape)
    # Several, so that a step does not always see the same orders.
    actions = [torch.rand(shape, generator=generator, device=env.device) * 2 - 1 for _ in range(4)]
    # As an agent would, the benchmark hands in its own storage: two rows of a rollout in turn.
    observation, _ = env.reset()
    out, final = [observation, torch.empty_like(observation)], torch.zeros_like(observation)

    def step(index: int) -> None:
        env.step(actions[index % len(actions)], out=out[index % 2], final_out=final)

    began = time.perf_counter()
    step(0)
    wait(env.device)
    compile_s = time.perf_counter() - began
    for index in range(WARM_UP):
        step(index)
    seconds = []
    for _ in range(REPEATS):
        wait(env.device)
        began = time.perf_counter()
        for index in range(arguments.steps):
            step(index)
        wait(env.device)
        seconds.append(time.perf_counter() - began)
    memory = torch.cuda.max_memory_allocated(env.device) if env.device.type == "cuda" else 0
    return {
        "name": name,
        "num_envs": arguments.num_envs,
        "steps_per_s": arguments.num_envs * arguments.steps / statistics.median(seconds),
        "compile_s": compile_s,
        "compiled": env.compiled,
        "memory_gb": memory / 1e9,
    }


def wait(device: torch.device) -> None:
    """Until the device has done all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def record(file: str, panel: MarketPanel, fill: str) -> None:
    """Writes what the NumPy form does with random actions."""
    arrays: dict[str, np.ndarray] = {}
    for name in NAMES:
        env = build(name, panel, CHECKED_ENVS, fill, device=None, compiled=None)
        env.reset()
        shape = (CHECKED_STEPS, CHECKED_ENVS, *env.single_action_space.shape)
        # In hundredths, and positions in half the bytes, so that the file stays small.
        actions = np.random.default_rng(0).integers(-100, 101, shape).astype(np.int8)
        positions = np.empty((CHECKED_STEPS, CHECKED_ENVS, panel.num_assets), np.int32 if whole(env) else np.float32)
        values, rewards, shown, last = np.zeros((4, CHECKED_STEPS, CHECKED_ENVS))
        for index in range(CHECKED_STEPS):
            observation, rewards[index], _, _, infos = env.step(actions[index] / np.float32(100))
            positions[index], values[index] = env.view.positions, infos["portfolio_value"]
            shown[index] = observation.astype(np.float64).sum(axis=1)
            if "final_obs" in infos:
                last[index] = infos["final_obs"].astype(np.float64).sum(axis=1)
        results = {"actions": actions, "positions": positions, "values": values, "rewards": rewards}
        results |= {"shown": shown, "last": last}
        arrays |= {f"{name}/{key}": array for key, array in results.items()}
        arrays[f"{name}/episodes"] = env.episode_numbers
    np.savez_compressed(file, fill=np.array(fill), **arrays)


def check(file: str, panel: MarketPanel, arguments: argparse.Namespace) -> bool:
    """Compares with a recording: whole share counts exactly, the rest to 1e-5."""
    compiled = {"auto": None, "yes": True, "no": False}[arguments.compile]
    good = True
    with np.load(file) as saved:
        for name in NAMES:
            env = build(name, panel, CHECKED_ENVS, str(saved["fill"]), device=arguments.device, compiled=compiled)
            observation, _ = env.reset()
            compared = ("positions", "values", "rewards", "shown", "last")
            expected = {key: saved[f"{name}/{key}"] for key in ("actions", *compared)}
            counts = 0
            worst = dict.fromkeys(compared, 0.0)
            # Storage of its own, as in the measurement.
            out, final = [observation, torch.empty_like(observation)], torch.zeros_like(observation)
            for index, hundredths in enumerate(expected["actions"]):
                actions = torch.from_numpy(hundredths / np.float32(100)).to(env.device)
                observation, rewards, _, _, infos = env.step(actions, out=out[index % 2], final_out=final)
                found = {"positions": env.view.positions, "values": infos["portfolio_value"], "rewards": rewards}
                found["shown"] = observation.double().sum(1)
                found["last"] = torch.where(infos["_final_obs"], infos["final_obs"].double().sum(1), 0.0)
                for key, tensor in found.items():
                    array, theirs = tensor.cpu().numpy(), expected[key][index].astype(np.float64)
                    gap = np.abs(array - theirs) / np.maximum(np.abs(theirs), 1.0)
                    worst[key] = max(worst[key], float(gap.max()))
                    if key == "positions" and whole(env):
                        counts += int((array != theirs).sum())
            ended = np.array_equal(env.episode_numbers.cpu().numpy(), saved[f"{name}/episodes"])
            passed = ended and counts == 0 and max(worst.values()) <= 1e-5
            good &= passed
            gaps = ", ".join(f"{key} {gap:.1e}" for key, gap in worst.items())
            verdict = "same" if passed else "DIFFERENT" if ended else "DIFFERENT EPISODES"
            print(f"{name:18}{verdict}: {counts} share counts differ, largest relative gaps: {gaps}")
    return good


def whole(env: Any) -> bool:
    """Whether only whole shares are traded."""
    return env.trade.way == "shares" and env.trade.whole


def main() -> int:
    """Measures, records or checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=262_144, help="environments stepped together")
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--steps", type=int, default=200, help="steps per repeat")
    parser.add_argument("--fill", default="next_open", choices=["next_open", "next_close", "same_close"])
    parser.add_argument("--compile", default="auto", choices=["auto", "yes", "no"], help="whether to compile the step")
    parser.add_argument("--env", choices=NAMES, help="measure this one alone")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--record", metavar="FILE", help="write what the NumPy form does")
    parser.add_argument("--check", metavar="FILE", help="compare with such a file")
    arguments = parser.parse_args()
    panel = synthetic_panel()
    if arguments.record:
        record(arguments.record, panel, arguments.fill)
        return 0
    warnings.simplefilter("default")
    if arguments.check:
        return 0 if check(arguments.check, panel, arguments) else 1
    rows = [measure(name, panel, arguments) for name in ([arguments.env] if arguments.env else NAMES)]
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    print(f"torch {torch.__version__} on {arguments.device}, {panel.num_assets} assets, fill {arguments.fill}")
    print(f"{'environment':18}{'number':>10}{'steps/s':>16}{'first step s':>14}{'compiled':>10}{'memory GB':>11}")
    for row in rows:
        print(
            f"{row['name']:18}{row['num_envs']:>10,}{row['steps_per_s']:>16,.0f}{row['compile_s']:>14.1f}"
            f"{'yes' if row['compiled'] else 'no':>10}{row['memory_gb']:>11.1f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
