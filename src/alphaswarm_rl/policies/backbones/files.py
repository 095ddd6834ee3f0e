"""Backbones built, saved and loaded: weights drawn or read from a file, frozen where the parameters say so.

A file is safetensors whose header describes the backbone as JSON. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from alphaswarm_rl.core.errors import ComponentError, UnfitCheckpoint
from alphaswarm_rl.core.files import read_regular
from alphaswarm_rl.core.hashing import plain_fields
from alphaswarm_rl.core.json import load_json
from alphaswarm_rl.policies.backbones.components import DEFAULT_WIDTH, Backbone, BackboneConfig
from alphaswarm_rl.policies.backbones.layers import Dropout, initialise

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import EncoderRequest

SCHEMA_VERSION = 1
#: Where the JSON is, in the header of the file.
_KEY = "alphaswarm_rl.backbone"


@dataclass(frozen=True)
class BackboneDescription:
    """What a backbone's network is.

    Attributes:
        alias: Alias of the backbone in the catalogue.
        kwargs: The parameters that shape it.
        features: Numbers per step.
        length: Steps per window.
        features_dim: Width of its output.
    """

    alias: str
    kwargs: dict[str, Any]
    features: int
    length: int
    features_dim: int


def assemble(backbone: Backbone, request: EncoderRequest) -> nn.Module:
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
        # The parameters that are the network's own, not those that say how it is used.
        kwargs={name: value for name, value in plain_fields(config).items() if name not in BackboneConfig.model_fields},
        features=request.features,
        length=request.length,
        features_dim=width,
    )
    if config.weights is not None and request.pretrained:
        load_trunk(network, backbone, Path(config.weights).expanduser(), sha256=config.sha256)
    if config.frozen:
        freeze(network)
    return network


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


def save_backbone(path: str | Path, network: nn.Module) -> str:
    """Writes a built backbone to a file, to be named by `weights` or read by `load_backbone`.

    Args:
        path: Where to; the folder must be there.
        network: What a backbone's `build` gave, trained or not.

    Returns:
        SHA-256 of the file.
    """
    from safetensors.torch import save

    description = getattr(network, "description", None)
    if not isinstance(description, BackboneDescription):
        raise ComponentError(
            f"a network of type {type(network).__name__}",
            "no backbone of the catalogue built it, so nobody could build it again",
            "Save what a backbone's build() gave.",
        )
    about = json.dumps({"schema_version": SCHEMA_VERSION, **asdict(description)}, sort_keys=True)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    content = save(tensors, metadata={_KEY: about})
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(target)
    return hashlib.sha256(content).hexdigest()


def load_backbone(path: str | Path, *, sha256: str | None = None) -> nn.Module:
    """The network that `save_backbone` wrote, to be trained on or used.

    Args:
        path: The file.
        sha256: What its checksum must be; None: any.
    """
    from alphaswarm_rl.core.contracts import EncoderRequest
    from alphaswarm_rl.core.refs import build_from_config

    about, tensors = _read(Path(path), sha256)
    backbone = build_from_config({"class": about.alias, "kwargs": about.kwargs}, kind="policy_backbone")
    network = backbone.build(EncoderRequest(about.features, about.length, about.features_dim))
    _take(network, tensors, Path(path), needless=())
    return network


def load_trunk(network: nn.Module, backbone: Backbone, path: Path, *, sha256: str | None) -> None:
    """Puts the weights of a file into a network of the same shape; any other file is an error.

    Args:
        network: Where to.
        backbone: What built it.
        path: The file.
        sha256: What its checksum must be; None: any.
    """
    saved, tensors = _read(path, sha256)
    built: BackboneDescription = network.description
    differing = [
        f"{name} {getattr(saved, name)!r} (here {getattr(built, name)!r})"
        for name in ("alias", "features", "length", "features_dim")
        if getattr(saved, name) != getattr(built, name)
    ]
    differing += [
        f"{name} {saved.kwargs.get(name)!r} (here {built.kwargs.get(name)!r})"
        for name in sorted({*saved.kwargs, *built.kwargs} - backbone.reshapable)
        if saved.alias == built.alias and saved.kwargs.get(name) != built.kwargs.get(name)
    ]
    if differing:
        raise ComponentError(
            f"the weights {str(path)!r} of policy_backbone {backbone.rl_alias!r}",
            f"they are of a backbone with {', '.join(differing)}",
            "Name the same parameters, windows and features_dim as in its training.",
        )
    _take(network, tensors, path, needless=backbone.training_only)


def _read(path: Path, sha256: str | None) -> tuple[BackboneDescription, dict[str, Tensor]]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        # Read once: what was verified is what is loaded.
        content = read_regular(path)
        found = hashlib.sha256(content).hexdigest()
        if sha256 is not None and found != sha256:
            why = f"their SHA-256 is {found}, not {sha256}"
            raise _unusable(path, why, "Use the file that was meant, or name its checksum.")
        header = load_json(content[8 : 8 + int.from_bytes(content[:8], "little")])
        about = load_json(header["__metadata__"][_KEY])
        version = about.pop("schema_version")
        if version != SCHEMA_VERSION:
            raise _unusable(path, f"they have schema version {version}", "Upgrade alphaswarm-rl.")
        return BackboneDescription(**about), load(content)
    except OSError as error:
        remedy = "Name a file that save_backbone wrote, relative to the working directory."
        raise _unusable(path, f"they cannot be read: {error.strerror or error}", remedy) from error
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        raise _unusable(path, f"they are no backbone: {error!r}", "Name a file that save_backbone wrote.") from error


def _unusable(path: Path, why: str, remedy: str) -> UnfitCheckpoint:
    return UnfitCheckpoint(f"the weights {str(path)!r:.200}", why, remedy)


def _take(network: nn.Module, tensors: dict[str, Tensor], path: Path, *, needless: tuple[str, ...]) -> None:
    own = network.state_dict()
    needed = {name: tensor for name, tensor in tensors.items() if name in own or not name.startswith(needless)}
    shapes = {name: tuple(tensor.shape) for name, tensor in needed.items()}
    if shapes != {name: tuple(tensor.shape) for name, tensor in own.items()}:
        odd = sorted({*own} ^ {*needed}) or [name for name in own if own[name].shape != needed[name].shape]
        raise _unusable(path, f"they do not fit, beginning with {odd[0]!r}", "Use weights of the same backbone.")
    network.load_state_dict(needed)
