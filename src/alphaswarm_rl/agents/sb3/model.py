"""The Stable-Baselines3 model that an agent's parameters describe, and feature extractors of our own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import ActionNoise, NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, NatureCNN
from stable_baselines3.common.utils import LinearSchedule
from torch import nn

from alphaswarm_rl.agents.sb3.vec_env import SpacesVecEnv, as_sb3
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.refs import ComponentRef
from alphaswarm_rl.policies.backbones.encoders import build_encoder

if TYPE_CHECKING:
    from alphaswarm_rl.agents.sb3.algorithms import SB3Adapter
    from alphaswarm_rl.agents.sb3.configs import Layers, SB3Config
    from alphaswarm_rl.agents.sb3.off_policy_configs import ActorQConfig
    from alphaswarm_rl.agents.sb3.on_policy_configs import OnPolicyConfig
    from alphaswarm_rl.core.contracts import AgentRequest
    from alphaswarm_rl.core.model import FrozenModel
    from alphaswarm_rl.core.types import AnySpace, JsonObject

#: Parameters that describe networks, by the name Stable-Baselines3's policies have for them.
_POLICY_KEYWORDS = {
    "n_critics",
    "lstm_hidden_size",
    "n_lstm_layers",
    "shared_lstm",
    "enable_critic_lstm",
    "n_quantiles",
}
#: Parameters that are translated below; every other one goes to the algorithm as it is.
_TRANSLATED = {
    "policy_type",
    "net_arch",
    "encoder",
    "embed_dim",
    "activation",
    "learning_rate",
    "lr_schedule",
    "action_noise",
    "action_noise_std",
}


class UnusedOptimiser(torch.optim.Optimizer):
    """Stands where Stable-Baselines3 has an optimiser, in a model that only answers.

    Making one of torch's own loads torch's compiler, which takes longer than everything else that answering needs.
    """

    def __init__(self, params: Iterable[torch.nn.Parameter], lr: float, **kwargs: object) -> None:
        self.param_groups = [{"params": list(params)}]

    def state_dict(self) -> JsonObject:
        """Which parameters there are; nothing is known of their steps."""
        return {"state": {}, "param_groups": [{"params": list(range(len(self.param_groups[0]["params"])))}]}

    def load_state_dict(self, state_dict: JsonObject) -> None:
        """Nothing is kept: it makes no step."""


def build_model(agent: SB3Adapter, request: AgentRequest, device: torch.device) -> BaseAlgorithm:
    """The model, seeded, without any output of its own. It draws from the global generators."""
    module, name = agent.algorithm
    config = agent.config
    keywords = {
        field: getattr(config, field)
        for field in type(config).model_fields
        if field not in _TRANSLATED and field not in _POLICY_KEYWORDS
    }
    if "action_noise" in type(config).model_fields:
        keywords["action_noise"] = _action_noise(config, request.action_space.shape or ())
    recurrent = "recurrent" in agent.rl_tags
    with warnings.catch_warnings():
        if not request.training:
            # The advice on mini-batches counts environments, and an evaluation has another number of them.
            warnings.filterwarnings("ignore", message="You have specified a mini-batch size")
        model: BaseAlgorithm = getattr(import_module(module), name)(
            config.policy_type.replace("Policy", "LstmPolicy") if recurrent else config.policy_type,
            SpacesVecEnv(request) if request.env is None else as_sb3(request.env),
            learning_rate=_learning_rate(config),
            policy_kwargs=_policy_keywords(config, request) | _answering_keywords(agent, request),
            seed=request.seed,
            device=device,
            verbose=0,
            **keywords,
        )
    # Not `configure(None, [])`: that makes a folder for logs that nobody writes.
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def _learning_rate(config: SB3Config) -> float | LinearSchedule:
    return LinearSchedule(config.learning_rate, 0.0, 1.0) if config.lr_schedule == "linear" else config.learning_rate


def find_device(name: str) -> torch.device:
    """The device of that name; one that this machine does not have is an error."""
    try:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else torch.device(name)
    except RuntimeError as error:
        raise ComponentError(
            f"device {name!r}", "torch knows no such device", "Use cpu, cuda, cuda:N or auto."
        ) from error
    # Stable-Baselines3 would quietly take the CPU instead.
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ComponentError(f"device {name!r}", "this machine does not have it", "Use cpu or auto.")
    return device


def _action_noise(config: ActorQConfig, shape: tuple[int, ...]) -> ActionNoise | None:
    if config.action_noise == "none":
        return None
    mean, std = np.zeros(shape), np.full(shape, config.action_noise_std)
    return NormalActionNoise(mean, std) if config.action_noise == "normal" else OrnsteinUhlenbeckActionNoise(mean, std)


def _policy_keywords(config: OnPolicyConfig, request: AgentRequest) -> JsonObject:
    fields = type(config).model_fields
    keywords: JsonObject = {name: getattr(config, name) for name in sorted(_POLICY_KEYWORDS & fields.keys())}
    if config.net_arch is not None:
        keywords["net_arch"] = _layers(config.net_arch)
    if config.activation is not None:
        keywords["activation_fn"] = {"tanh": nn.Tanh, "relu": nn.ReLU}[config.activation]
    encoder = getattr(config, "encoder", None)
    if isinstance(encoder, ComponentRef):
        keywords["features_extractor_class"] = BackboneExtractor
        keywords["features_extractor_kwargs"] = {
            "encoder": encoder,
            "features_dim": config.embed_dim,
            "length": request.stacked_frames,
            # What is not trained gets its whole state from a checkpoint.
            "pretrained": request.training,
        }
    elif encoder is not None:
        keywords["features_extractor_class"] = {"mlp": MlpEncoder, "cnn": NatureCNN}[encoder]
        keywords["features_extractor_kwargs"] = {"features_dim": config.embed_dim}
    return keywords


def _answering_keywords(agent: SB3Adapter, request: AgentRequest) -> dict[str, object]:
    """What a model that only answers is built without: its weights come from a checkpoint, and it makes no step."""
    if request.env is not None:
        return {}
    orthogonal = {"ortho_init": False} if "on-policy" in agent.rl_tags and "search" not in agent.rl_tags else {}
    return {"optimizer_class": UnusedOptimiser, **orthogonal}


def _layers(net_arch: Layers | FrozenModel) -> list[int] | dict[str, list[int]]:
    if isinstance(net_arch, tuple):
        return list(net_arch)
    return {network: list(getattr(net_arch, network)) for network in type(net_arch).model_fields}


class MlpEncoder(BaseFeaturesExtractor):
    """Flattens the observation, every entry of a Dict beside the others, and embeds it by one layer with ReLU.

    Args:
        observation_space: The space of the observations.
        features_dim: Width of the embedding.
    """

    def __init__(self, observation_space: AnySpace, features_dim: int) -> None:
        super().__init__(observation_space, features_dim)
        parts = observation_space.spaces.values() if isinstance(observation_space, spaces.Dict) else [observation_space]
        self.embed = nn.Sequential(nn.Linear(sum(map(get_flattened_obs_dim, parts)), features_dim), nn.ReLU())

    def forward(self, observations: torch.Tensor | dict[str, torch.Tensor]) -> torch.Tensor:
        """The embedding of a batch."""
        if isinstance(observations, dict):
            flat = torch.cat([observations[key].flatten(1) for key in self._observation_space.spaces], dim=1)
        else:
            flat = observations.flatten(1)
        return self.embed(flat)


class BackboneExtractor(BaseFeaturesExtractor):
    """A backbone of the catalogue; a loss that it has of its own is added to that of the algorithm.

    Args:
        observation_space: The space of the observations.
        encoder: The backbone.
        features_dim: Width of the features, unless the backbone names its own.
        length: Steps in a flat observation, unless the backbone names them.
        pretrained: Whether weights that it names are read.
    """

    def __init__(
        self,
        observation_space: AnySpace,
        encoder: ComponentRef,
        features_dim: int,
        length: int | None,
        pretrained: bool,
    ) -> None:
        # The seed is the algorithm's next draw, so that the extractors of an actor and a critic begin differently.
        seed = int(torch.randint(2**31, ()))
        built = build_encoder(observation_space, encoder, features_dim, length=length, seed=seed, pretrained=pretrained)
        super().__init__(observation_space, built.features_dim)
        self.encoder = built

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """The features of a batch."""
        return self.encoder(observations)

    def apply(self, fn: Callable[[nn.Module], None]) -> BackboneExtractor:
        """Nothing: policies would draw all its layers anew, those with weights from a file too."""
        return self
