"""The composed trading environment in torch: what runs on a GPU."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, ClassVar, NoReturn

import numpy as np
import torch
from gymnasium import Space
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from alphaswarm_rl.arrays.backend import torch_device
from alphaswarm_rl.arrays.backend_torch import TorchBackend, float64_by_default
from alphaswarm_rl.arrays.compiled_function import CompiledFunction
from alphaswarm_rl.arrays.counter_rng_torch import seed_words, uniform
from alphaswarm_rl.core.contracts import EnvRequest, State, episode_key
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.envs.episodes import START_STREAM, check_identity, checked_request, checked_seed, matching
from alphaswarm_rl.envs.parts import Part
from alphaswarm_rl.envs.trading_plan import END_OF_DATA, TradingPlan
from alphaswarm_rl.market.accounts_torch import TorchAccounts
from alphaswarm_rl.market.average_cost import average_cost
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.view import ARRAYS, View

_MONEY = ("cash", "value", "value_before", "peak")
_INFOS = (
    "portfolio_value",
    "nav_return",
    "cash",
    "drawdown",
    "turnover",
    "cost",
    "carry",
    "step_idx",
    "timestamp",
    "improper_stop",
    "reason",
)

Tensors = dict[str, Tensor]


class TorchTradingEnv(VectorEnv[Tensor, Tensor, Tensor]):
    """Accounts on one market, stepped together on a device; the twin of `TradingEnv`.

    Everything that goes in and out of `step` is a tensor on the device, and nothing in it waits for the device. Because
    of that nobody can look whether anything ended, or whether actions are sound:

    - `final_obs`, `_final_obs`, `reason` and `_reason` are in the infos of every step. Rows of `final_obs` whose
      episode goes on hold finite numbers that mean nothing. `reason` is an index into `reasons`;
    - an action that is not a finite number counts as 0, a discrete one that is out of range as the nearest one.

    `timestamp` is in nanoseconds since 1970. Tensors that it hands out stay as they are: each step makes new ones. All
    of a step but the observation is one function of tensors, which compiled is a few kernels; the builders then write
    straight into the observation.

    Args:
        request: How many are wanted, and where.
        plan: What they are made of.
        compile: Whether to compile the step with `torch.compile`. None: on a GPU where that is possible.

    Attributes:
        reasons: Names of what `infos["reason"]` counts; the first, "", is of episodes that go on.
    """

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}

    def __init__(self, request: EnvRequest, plan: TradingPlan, *, compile: bool | None = None) -> None:  # noqa: A002  (as torch calls it)
        if request.render:
            self.render()
        n, panel = checked_request(request).num_envs, plan.panel
        self.num_envs = n
        self.plan = plan
        self.device = torch_device(request.device)
        self._backend = backend = TorchBackend(self.device)
        names = [builder.names(panel) for builder in plan.builders]
        self.feature_names = tuple(name for its in names for name in its)
        self.single_observation_space = Box(-np.inf, np.inf, (len(self.feature_names),), np.float32)
        self.single_action_space: Space[Any] = plan.action.space(panel)
        self._discrete = self.single_action_space.dtype.kind in "iu"  # type: ignore[union-attr]
        self.market = market_of(panel, plan.fill, backend)
        self.trade = plan.action.trade(panel)
        self.reasons = ("", END_OF_DATA, *(termination.rl_alias for termination in plan.terminations))
        self._accounts = TorchAccounts(self.market, self.trade, plan.costs, plan.margin)
        self._timestamps = backend.put(panel.timestamps.astype("datetime64[ns]").astype(np.int64))
        self._turbulence = (
            self.market.market_features[:, panel.market_feature_names.index("turbulence")]
            if "turbulence" in panel.market_feature_names
            else None
        )
        self._info_names = _INFOS if self._turbulence is None else (*_INFOS, "turbulence")
        self._last_action = self._highest() if self._discrete else None
        self._phase = request.phase
        self._builders = range(1, 1 + len(names))
        edges = np.cumsum([0, *map(len, names)]).tolist()
        self._columns = {index: slice(*edges[index - 1 : index + 1]) for index in self._builders}
        self._account_names = [
            name for name in ARRAYS if name != "action" and (name != "average_cost" or plan.tracks_cost)
        ]
        self._index = torch.arange(n, device=self.device)
        with float64_by_default():
            # Each part's own arrays of one environment are how an episode begins for all of them.
            self._parts = [Part(part, self.market, 1) for part in plan.parts()]
            self._words = seed_words(request.seed, self.device)
            self._seeded = request.seed
            begun = self._beginning(torch.full_like(self._index, -1), self._first_starts())
            # Tensors of its own each, which every step writes over.
            self._state = {name: tensor.clone() for name, tensor in begun.items()}
        self._started = False
        self._graphs: Any = None
        if self._masks() is not None:
            self.action_masks = self._masks
        # Builders come after the step, and so do their arrays.
        shown = tuple(f"part{index}/" for index in self._builders)
        self._names = tuple(name for name in self._state if not name.startswith(shown))
        self._run = CompiledFunction(self._advance, self.device, enabled=compile, name="The step of the environment")
        if self.device.type == "cuda" and self._run.compiles:
            from alphaswarm_rl.envs.step_graphs import StepGraphs

            self._graphs = StepGraphs(self._step)

    @cached_property
    def observation_space(self) -> Space[Any]:  # type: ignore[override]
        """Of all of them; made when asked for, as its bounds are as large as an observation."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> Space[Any]:  # type: ignore[override]
        """Of all of them."""
        return batch_space(self.single_action_space, self.num_envs)

    @property
    def compiled(self) -> bool:
        """Whether steps are compiled, or will be from the first on."""
        return self._run.compiles

    @property
    def episode_numbers(self) -> Tensor:
        """The current episode of each environment; -1 before the first reset."""
        return self._state["episodes"].clone()

    @property
    def view(self) -> View:
        """The accounts as they are now."""
        return self._view(self._state)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Tensor, dict[str, Any]]:
        """Starts each environment's next episode; a seed replaces the request's and starts again from episode 0."""
        if options:
            raise EnvError(f"reset options {sorted(options)}", "this environment takes none", "Leave options out.")
        with torch.no_grad(), float64_by_default():
            episodes = self._state["episodes"] + 1
            if seed is not None:
                self._seed(checked_seed(seed))
                episodes = torch.zeros_like(episodes)
            self._take_over(self._beginning(episodes, self._starts(self._words, episodes)))
            self._started = True
            observations = self._empty()
            view = self._view(self._state)
            for index in self._builders:
                own = self._own(self._state, index)
                self._apply(index, view, own, observations[:, self._columns[index]])
                self._keep(index, own)
            return observations, {}

    def step(
        self, actions: Tensor, out: Tensor | None = None, final_out: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """One step of all; ended episodes are followed at once by their next.

        Args:
            actions: One per environment, on the device.
            out: Where the observation is to be written, (n, D) float32 on the device; None: into a new tensor.
            final_out: Where the last observations of ended episodes are to be written; other rows may stay as they are.
        """
        if not self._started:
            raise ResetNeeded("Cannot call step() before calling reset()")
        observations = self._empty() if out is None else self._checked_storage(out)
        final = torch.zeros_like(observations) if final_out is None else self._checked_storage(final_out)
        step = self._step if self._graphs is None or out is None or final_out is None else self._graphs
        with torch.no_grad(), float64_by_default():
            rewards, terminated, truncated, ended, *rest = step(self._checked(actions), observations, final)
        infos: dict[str, Any] = dict(zip(self._info_names, rest, strict=False))
        infos["reward_terms"] = {
            named.name: term for named, term in zip(self.plan.terms, rest[len(self._info_names) :], strict=True)
        }
        infos["_reason"] = infos["_final_obs"] = ended
        infos["final_obs"] = final
        return observations, rewards, terminated, truncated, infos

    def _step(self, actions: Tensor, observations: Tensor, final: Tensor) -> tuple[Tensor, ...]:
        """Steps, writes the observations, and gives rewards, flags, infos and reward terms."""
        count = 4 + len(self._info_names) + len(self.plan.terms)
        results = self._run([self._words, actions, *(self._state[name] for name in self._names)])
        before = self._view(dict(zip(self._names, results[count:], strict=True)))
        own = self._look_back(before, results[3], final)
        self._look(own, results[3], observations, final)
        return results[:count]

    def _take_over(self, state: Tensors) -> None:
        """Writes it into the tensors of the state, which stay the same ones."""
        for name, tensor in state.items():
            self._state[name].copy_(tensor)

    def _look_back(self, before: View, ended: Tensor, final: Tensor) -> dict[int, Tensors]:
        """Writes what each builder shows at the end of the step, where an episode ended at least; gives its arrays."""
        arrays = {}
        for index in self._builders:
            own = arrays[index] = self._own(self._state, index)
            self._backend.only = None if own else ended
            self._apply(index, before, own, final[:, self._columns[index]])
        self._backend.only = None
        return arrays

    def _look(self, arrays: dict[int, Tensors], ended: Tensor, observations: Tensor, final: Tensor) -> None:
        """Writes what each builder shows after resets."""
        after = self._view(self._state)
        for index in self._builders:
            shown, own = observations[:, self._columns[index]], arrays[index]
            if not own:
                self._apply(index, after, own, shown)
                continue
            # Where its episode ended, a part's arrays are those of a new one, and it looks once more.
            begun, last = self._parts[index].own, final[:, self._columns[index]]
            fresh = {name: _where(ended, begun[name], array) for name, array in own.items()}
            first = torch.zeros_like(last)
            self._apply(index, after, fresh, first)
            shown[...] = _where(ended, first, last)
            self._keep(index, {name: _where(ended, fresh[name], array) for name, array in own.items()})

    def render(self) -> NoReturn:
        """Not offered."""
        raise EnvError("a picture of this environment", "it draws none", "Set evaluation.render: false.")

    def get_state(self) -> State:
        """Everything, as NumPy arrays of the names and types that the NumPy form has."""
        arrays = {name: tensor.cpu().numpy().copy() for name, tensor in self._state.items()}
        return State(arrays, {"seed": self._seeded, "identity": self.plan.identity()})

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit on the same device."""
        check_identity(state, self.plan.identity())
        found = {name: matching(state, name, tensor.cpu().numpy()) for name, tensor in self._state.items()}
        self._seed(checked_seed(state.data["seed"]))
        self._take_over(
            {
                name: torch.tensor(found[name], dtype=tensor.dtype, device=self.device)
                for name, tensor in self._state.items()
            }
        )
        self._started = bool((found["episodes"] >= 0).all())

    # What follows is the step as one function of tensors.

    def _advance(self, words: Tensor, actions: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """All results of a step but observations, in a row, the last of them the state at its end.

        The tensors of the state themselves hold the state after resets then.
        """
        old = dict(zip(self._names, state, strict=True))
        view, own = self._view(old), [self._own(old, index) for index in range(len(self._parts))]
        self._act(view, own, actions)
        reason = self._judge(view, own)
        terms = self._reward(view, own)
        ended = view.terminated | view.truncated
        flags = (view.terminated, view.truncated, ended)
        before = {f"account/{name}": getattr(view, name) for name in self._account_names} | {
            f"part{index}/{name}": array for index, its in enumerate(own) for name, array in its.items()
        }
        before["episodes"] = old["episodes"]
        # What a step leaves alone is still in the tensors of the state, which are written over below.
        written = {id(array) for array in old.values()}
        before = {name: array.clone() if id(array) in written else array for name, array in before.items()}
        results = (view.reward, *flags, *self._infos(view, reason), *terms, *(before[name] for name in self._names))
        for name, array in self._restarted(words, before, ended).items():
            old[name].copy_(array)
        return results

    def _act(self, view: View, own: list[Tensors], actions: Tensor) -> None:
        """The action, the stages, the gate, and one bar of trading."""
        if self._discrete:
            view.action = torch.clamp(torch.clamp(actions.to(torch.int64), min=0), max=self._last_action)
        else:
            view.action = torch.where(actions.isfinite(), actions, torch.zeros_like(actions))
        shape = (self.num_envs,) if self.trade.way == "position" else (self.num_envs, self.market.assets)
        wanted = torch.empty(shape, dtype=torch.float64, device=self.device)
        stages = range(len(self._parts) - len(self.plan.stages), len(self._parts))
        for index in (0, *stages):
            self._apply(index, view, own[index], wanted)
        if self._turbulence is not None and self.plan.turbulence_threshold is not None:
            stop = self._turbulence[view.bar] >= self.plan.turbulence_threshold
            quiet = -view.positions if self.trade.way == "shares" else torch.zeros_like(wanted)
            wanted = _where(stop, quiet, wanted)
        view.value_before = view.value
        exits = partial(self._leave, own[0]) if self.trade.bracket else None
        self._accounts.step(view, wanted, exits)
        view.peak = torch.maximum(view.peak, view.value)
        if view.average_cost is not None:
            view.average_cost = average_cost(view)

    def _leave(self, own: Tensors, view: View) -> Tensor:
        prices: Tensor = self.plan.action.exits(view, {**self._parts[0].state, **own})
        return prices

    def _judge(self, view: View, own: list[Tensors]) -> Tensor:
        """Sets the flags; gives the reasons."""
        view.terminated = torch.zeros_like(view.terminated)
        view.truncated = view.bar >= view.last
        failures: list[tuple[int, Tensor]] = []
        others: list[tuple[int, Tensor]] = []
        offset = 1 + len(self.plan.builders) + len(self.plan.terms)
        for number, termination in enumerate(self.plan.terminations):
            hit = torch.empty_like(view.truncated)
            self._apply(offset + number, view, own[offset + number], hit)
            if termination.improper:
                failures.append((2 + number, hit))
                view.terminated = view.terminated | hit
            else:
                others.append((2 + number, hit))
                view.truncated = view.truncated | hit
        view.truncated = view.truncated & ~view.terminated
        view.improper_stop = view.terminated.clone()
        reason = view.truncated.to(torch.int8)
        # The first that fired names the end; a failure goes before anything else.
        for code, hit in reversed(failures + others):
            reason = torch.where(hit, torch.full_like(reason, code), reason)
        return reason

    def _reward(self, view: View, own: list[Tensors]) -> list[Tensor]:
        view.reward = torch.zeros_like(view.value)
        terms = []
        for index, named in enumerate(self.plan.terms, start=1 + len(self.plan.builders)):
            amount = torch.empty_like(view.value)
            self._apply(index, view, own[index], amount)
            if named.weight != 1.0:
                amount = amount * named.weight
            terms.append(amount)
            view.reward = view.reward + amount
        return terms

    def _infos(self, view: View, reason: Tensor) -> tuple[Tensor, ...]:
        """In the order of their names."""
        infos = (
            view.value,
            view.portfolio_return,
            view.cash,
            view.drawdown,
            view.turnover,
            view.cost,
            view.carry,
            view.steps,
            self._timestamps[view.bar],
            view.improper_stop,
            reason,
        )
        return infos if self._turbulence is None else (*infos, self._turbulence[view.bar])

    def _restarted(self, words: Tensor, before: Tensors, ended: Tensor) -> Tensors:
        """The state after the step: ended episodes are followed by their next."""
        episodes = before["episodes"] + ended.to(torch.int64)
        begun: dict[str, Any] = {
            f"account/{name}": value for name, value in self._account(self._starts(words, episodes)).items()
        }
        for index, part in enumerate(self._parts):
            begun |= {f"part{index}/{name}": array for name, array in part.own.items()}
        state = {name: _where(ended, begun.get(name, False), array) for name, array in before.items()}
        return {**state, "episodes": episodes}

    def _starts(self, words: Tensor, episodes: Tensor) -> Tensor:
        """The first bar of those episodes."""
        if self.plan.starts == 1:
            return self._first_starts()
        first, second = episode_key(self._phase, self.num_envs, self._index, episodes)  # type: ignore[arg-type]
        draw = uniform(words, first, second, START_STREAM, 1)[:, 0]  # type: ignore[arg-type]
        return self.plan.first_bar + (draw * self.plan.starts).to(torch.int64)

    def _first_starts(self) -> Tensor:
        return torch.full_like(self._index, self.plan.first_bar)

    def _account(self, start: Tensor) -> dict[str, Any]:
        """What an account begins with; what is not here begins with nothing."""
        money = dict.fromkeys(_MONEY, self.plan.initial_cash)
        return {"bar": start, "start": start, "last": start + self.plan.length, **money}

    def _beginning(self, episodes: Tensor, start: Tensor) -> Tensors:
        """The state as all episodes begin."""
        view = View(self.market, self.plan.initial_cash, self.num_envs)
        view.average_cost = torch.zeros_like(view.positions)
        begun = self._account(start)
        state = {
            f"account/{name}": getattr(view, name) + begun[name] if name in begun else getattr(view, name)
            for name in self._account_names
        }
        own = [
            {name: array.repeat(self.num_envs, *[1] * (array.dim() - 1)) for name, array in part.own.items()}
            for part in self._parts
        ]
        return self._with_own(state, own) | {"episodes": episodes}

    # Parts and their arrays.

    def _apply(self, index: int, view: View, own: Tensors, out: Tensor) -> None:
        part = self._parts[index]
        part.component.step(view, {**part.state, **own}, out)

    def _own(self, state: Tensors, index: int) -> Tensors:
        """Copies of a part's own arrays, which it may change; what is not in the state is not its turn to change."""
        names = {name: f"part{index}/{name}" for name in self._parts[index].own}
        return {name: state[full].clone() for name, full in names.items() if full in state}

    def _keep(self, index: int, own: Tensors) -> None:
        self._take_over({f"part{index}/{name}": array for name, array in own.items()})

    def _with_own(self, state: Tensors, own: list[Tensors]) -> Tensors:
        arrays = {f"part{index}/{name}": array for index, its in enumerate(own) for name, array in its.items()}
        return {**state, **arrays}

    def _empty(self) -> Tensor:
        return torch.empty((self.num_envs, len(self.feature_names)), dtype=torch.float32, device=self.device)

    def _view(self, state: Tensors) -> View:
        view = View.__new__(View)
        view.xp, view.market = self.market.backend.xp, self.market
        view.initial_cash, view.n, view.action, view.average_cost = self.plan.initial_cash, self.num_envs, None, None
        for name in self._account_names:
            setattr(view, name, state[f"account/{name}"])
        return view

    def _masks(self) -> Any:
        with torch.no_grad(), float64_by_default():
            return self.plan.action.mask(self.view, {**self._parts[0].state, **self._own(self._state, 0)})

    def _seed(self, seed: int) -> None:
        self._seeded = seed
        self._words.copy_(seed_words(seed, self.device))

    # What is checked.

    def _checked(self, actions: Tensor) -> Tensor:
        shape = (self.num_envs, *(self.single_action_space.shape or ()))
        sound = isinstance(actions, Tensor) and tuple(actions.shape) == shape and actions.device == self.device
        if not sound or (self._discrete and actions.dtype not in _WHOLE):
            found = (
                f"of shape {tuple(actions.shape)} and type {actions.dtype} on {actions.device}"
                if isinstance(actions, Tensor)
                else f"as {type(actions).__name__}"
            )
            raise EnvError(
                f"actions {found}",
                f"this environment takes a tensor of shape {shape} on {self.device} for {self.single_action_space}",
                "Give one action per environment, on its device.",
            )
        return actions.contiguous()

    def _checked_storage(self, out: Tensor) -> Tensor:
        shape = (self.num_envs, len(self.feature_names))
        if tuple(out.shape) != shape or out.dtype != torch.float32 or out.device != self.device:
            raise EnvError(
                f"storage of shape {tuple(out.shape)} and type {out.dtype} on {out.device}",
                f"the observation is of shape {shape} and type float32 on {self.device}",
                "Give a tensor like that, or leave it out.",
            )
        return out

    def _highest(self) -> Any:
        space: Any = self.single_action_space
        if hasattr(space, "n"):
            return int(space.n) - 1
        return torch.tensor(np.asarray(space.nvec) - 1, device=self.device)


_WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def _where(ended: Tensor, yes: Any, no: Tensor) -> Tensor:
    """One or the other by row; `yes` may be a number or of one row."""
    return torch.where(ended.reshape(-1, *[1] * (no.dim() - 1)), yes, no)
