"""From a backbone's parameters to its network: weights drawn or loaded, frozen where that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from alphaswarm_rl.core.hashing import plain_fields
from alphaswarm_rl.policies.backbones.base import DEFAULT_WIDTH, Backbone, BackboneConfig
from alphaswarm_rl.policies.backbones.files import BackboneDescription, load_trunk
from alphaswarm_rl.policies.backbones.initialising import initialise
from alphaswarm_rl.policies.backbones.layers import Dropout

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import EncoderRequest


def assemble(backbone: Backbone, request: EncoderRequest) -> Any:
    """The network of a backbone, for windows of that size."""
    config = backbone.config
    width = config.features_dim or request.features_dim or DEFAULT_WIDTH
    # Made without memory first: layers draw their weights from the global generator as they are made.
    with torch.device("meta"):
        network = backbone.network(request.features, request.length, width)
    network.to_empty(device="cpu")
    initialise(network, torch.Generator().manual_seed(request.seed))
    network.description = BackboneDescription(
        alias=backbone.rl_alias,
        kwargs=_of_the_network(config),
        features=request.features,
        length=request.length,
        features_dim=width,
    )
    if config.weights is not None and request.pretrained:
        load_trunk(network, backbone, Path(config.weights).expanduser(), sha256=config.sha256)
    if config.frozen:
        freeze(network)
    return network


def _of_the_network(config: BackboneConfig) -> dict[str, Any]:
    """The parameters that are the network's own, not those that say how it is used."""
    return {name: value for name, value in plain_fields(config).items() if name not in BackboneConfig.model_fields}


def freeze(module: nn.Module) -> None:
    """Makes weights constants: saved, loaded and moved as ever, but no parameters, and so known to no optimiser."""
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            delattr(part, name)
            part.register_buffer(name, parameter.detach())
        if isinstance(part, nn.RNNBase):
            part._init_flat_weights()  # it keeps a list of its weights
        if isinstance(part, Dropout):
            part.p = 0.0
