"""The Stable-Baselines3 model that an agent's parameters describe."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import ActionNoise, NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.torch_layers import NatureCNN
from stable_baselines3.common.utils import LinearSchedule

from alphaswarm_rl.agents.sb3.networks import BackboneExtractor, MlpEncoder
from alphaswarm_rl.agents.sb3.vec_env import SpacesVecEnv, as_sb3
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.refs import ComponentRef

if TYPE_CHECKING:
    from alphaswarm_rl.agents.sb3.algorithms import SB3Adapter
    from alphaswarm_rl.core.contracts import AgentRequest

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
        keywords["action_noise"] = _action_noise(config, request.action_space.shape)
    recurrent = "recurrent" in agent.rl_tags
    with warnings.catch_warnings():
        if not request.training:
            # The advice on mini-batches counts environments, and an evaluation has another number of them.
            warnings.filterwarnings("ignore", message="You have specified a mini-batch size")
        model: BaseAlgorithm = getattr(import_module(module), name)(
            config.policy_type.replace("Policy", "LstmPolicy") if recurrent else config.policy_type,
            SpacesVecEnv(request) if request.env is None else as_sb3(request.env),
            learning_rate=_learning_rate(config),
            policy_kwargs=_policy_keywords(config, request),
            seed=request.seed,
            device=device,
            verbose=0,
            **keywords,
        )
    # Not `configure(None, [])`: that makes a folder for logs that nobody writes.
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def _learning_rate(config: Any) -> Any:
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


def _action_noise(config: Any, shape: tuple[int, ...]) -> ActionNoise | None:
    if config.action_noise == "none":
        return None
    mean, std = np.zeros(shape), np.full(shape, config.action_noise_std)
    return NormalActionNoise(mean, std) if config.action_noise == "normal" else OrnsteinUhlenbeckActionNoise(mean, std)


def _policy_keywords(config: Any, request: AgentRequest) -> dict[str, Any]:
    fields = type(config).model_fields
    keywords: dict[str, Any] = {name: getattr(config, name) for name in sorted(_POLICY_KEYWORDS & fields.keys())}
    if config.net_arch is not None:
        keywords["net_arch"] = _layers(config.net_arch)
    if config.activation is not None:
        keywords["activation_fn"] = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[config.activation]
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


def _layers(net_arch: Any) -> list[int] | dict[str, list[int]]:
    if isinstance(net_arch, tuple):
        return list(net_arch)
    return {network: list(getattr(net_arch, network)) for network in type(net_arch).model_fields}
