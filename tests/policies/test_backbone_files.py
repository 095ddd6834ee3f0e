"""A backbone is trained apart from any agent, saved, and loaded as a trunk."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import torch

from alphaswarm_rl.core.contracts import EncoderRequest
from alphaswarm_rl.core.errors import CheckpointError, ComponentError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.policies.backbones.files import load_backbone, save_backbone
from alphaswarm_rl.policies.backbones.fitting import (
    FitSettings,
    fit_next_returns,
    fit_reconstruction,
    windows_before,
)

from .backbone_cases import FEATURES, LENGTH, SMALL, WIDTH, build, windows

every_backbone = pytest.mark.parametrize("alias", SMALL)


def same_weights(one, other):
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@every_backbone
def test_a_saved_backbone_is_the_same_again(alias, tmp_path):
    network = build(alias, seed=3)
    sha256 = save_backbone(tmp_path / "trunk.safetensors", network)
    assert sha256 == hashlib.sha256((tmp_path / "trunk.safetensors").read_bytes()).hexdigest()
    again = load_backbone(tmp_path / "trunk.safetensors", sha256=sha256).eval()
    assert same_weights(network, again)
    assert torch.equal(network(windows()), again(windows()))
    assert save_backbone(tmp_path / "second.safetensors", again) == sha256
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["second.safetensors", "trunk.safetensors"]


@every_backbone
def test_named_weights_are_loaded_and_a_frozen_trunk_never_changes(alias, tmp_path):
    trained = build(alias, seed=3)
    sha256 = save_backbone(tmp_path / "trunk.safetensors", trained)
    named = {"weights": str(tmp_path / "trunk.safetensors"), "sha256": sha256}
    free, frozen = build(alias, seed=4, **named), build(alias, seed=4, frozen=True, **named)
    assert same_weights(free, trained)
    assert same_weights(frozen, trained)
    assert list(frozen.parameters()) == []
    assert len(list(free.parameters())) == len(frozen.state_dict())
    frozen.train()  # dropout stays off
    torch.testing.assert_close(frozen(windows()), trained(windows()))
    head = torch.nn.Linear(WIDTH, 1)
    for network in (free, frozen):
        optimiser = torch.optim.Adam([*network.parameters(), *head.parameters()], lr=0.1)
        head(network(windows())).sum().backward()
        optimiser.step()
    assert same_weights(frozen, trained)
    assert not frozen(windows()).requires_grad
    assert not same_weights(free, trained)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_frozen_recurrent_network_follows_weights_that_are_loaded_later(cell, tmp_path):
    save_backbone(tmp_path / "trunk", build("recurrent", cell=cell))
    frozen = build("recurrent", cell=cell, weights=str(tmp_path / "trunk"), frozen=True)
    other = build("recurrent", cell=cell, seed=8)
    frozen.load_state_dict(other.state_dict())
    torch.testing.assert_close(frozen(windows()), other(windows()))


def test_weights_are_relative_to_the_working_directory_and_not_read_where_a_state_will_be_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_backbone("trunk.safetensors", build("transformer", seed=3))
    assert same_weights(build("transformer", weights="trunk.safetensors"), build("transformer", seed=3))
    component = build_from_config(
        {"class": "transformer", "kwargs": SMALL["transformer"] | {"weights": "gone"}}, kind="policy_backbone"
    )
    request = EncoderRequest(FEATURES, LENGTH, WIDTH, 5, pretrained=False)
    assert same_weights(component.build(request), build("transformer", seed=5))


def test_an_encoder_trained_with_a_decoder_is_loaded_without_it(tmp_path):
    trained = build("autoencoder", reconstruction_weight=1.0)
    save_backbone(tmp_path / "trunk", trained)
    trunk = build("autoencoder", weights=str(tmp_path / "trunk"), frozen=True)
    torch.testing.assert_close(trunk(windows()), trained(windows()))
    assert load_backbone(tmp_path / "trunk").decoder is not None


def test_dropout_may_change_after_the_training(tmp_path):
    save_backbone(tmp_path / "trunk", build("transformer", dropout=0.3))
    assert build("transformer", dropout=0.0, weights=str(tmp_path / "trunk")).dropout.p == 0


@pytest.mark.parametrize(
    ("alias", "kwargs", "why"),
    [
        ("transformer", {"d_ff": 32}, "d_ff 16 .here 32."),
        ("transformer", {"features_dim": 6}, "features_dim 5 .here 6."),
        ("transformer", {"length": 9}, "length 12 .here 9."),
        ("recurrent", {}, "alias 'transformer' .here 'recurrent'."),
    ],
)
def test_weights_of_another_shape_are_refused_by_name(alias, kwargs, why, tmp_path):
    save_backbone(tmp_path / "trunk", build("transformer"))
    with pytest.raises(ComponentError, match=why):
        build(alias, weights=str(tmp_path / "trunk"), **kwargs)


def test_files_that_cannot_be_trusted_are_refused(tmp_path):
    sha256 = save_backbone(tmp_path / "trunk", build("transformer"))
    with pytest.raises(CheckpointError, match=f"is {sha256}, not 000"):
        load_backbone(tmp_path / "trunk", sha256="0" * 64)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_backbone(tmp_path / "nowhere")
    content = (tmp_path / "trunk").read_bytes()
    (tmp_path / "cut").write_bytes(content[:-8])
    (tmp_path / "text").write_text("not a backbone at all")
    (tmp_path / "empty").write_bytes(b"")
    newer = content.replace(b'\\"schema_version\\": 1', b'\\"schema_version\\": 7')
    assert newer != content
    (tmp_path / "newer").write_bytes(newer)
    for name, why in (
        ("cut", "no backbone"),
        ("text", "no backbone"),
        ("empty", "no backbone"),
        ("newer", "version 7"),
    ):
        with pytest.raises(CheckpointError, match=why):
            load_backbone(tmp_path / name)


def test_the_header_is_plain_json(tmp_path):
    save_backbone(tmp_path / "trunk", build("recurrent", cell="gru"))
    content = (tmp_path / "trunk").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    about = json.loads(header["__metadata__"]["alphaswarm_rl.backbone"])
    assert about == {
        "schema_version": 1,
        "alias": "recurrent",
        "kwargs": {"cell": "gru", "hidden": 6, "layers": 2, "dropout": 0.1},
        "features": FEATURES,
        "length": LENGTH,
        "features_dim": WIDTH,
    }


def test_only_what_a_backbone_built_is_saved(tmp_path):
    with pytest.raises(ComponentError, match="no backbone of the catalogue"):
        save_backbone(tmp_path / "trunk", torch.nn.Linear(2, 2))


def test_windows_end_before_the_return_they_are_to_say():
    series = np.arange(10.0).reshape(5, 2)
    returns = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    cut, targets = windows_before(series, returns, 3)
    assert cut.tolist() == [[[0, 1], [2, 3], [4, 5]], [[2, 3], [4, 5], [6, 7]]]
    assert targets.tolist() == [0.3, 0.4]
    with pytest.raises(ComponentError, match="no window of 5 steps"):
        windows_before(series, returns, 5)


@every_backbone
def test_future_noise_does_not_change_the_features_of_any_earlier_window(alias):
    generator = np.random.default_rng(0)
    series = generator.standard_normal((40, FEATURES)).astype(np.float32)
    noisy = series.copy()
    noisy[25:] = generator.standard_normal((15, FEATURES)) * 50
    network = build(alias)
    before, after = (
        network(torch.from_numpy(windows_before(each, np.zeros(40), LENGTH)[0])) for each in (series, noisy)
    )
    past = 25 - LENGTH + 1  # windows that end at bar 24 or earlier
    assert torch.equal(before[:past], after[:past])
    assert not torch.equal(before[past:], after[past:])


@every_backbone
def test_a_backbone_learns_next_returns_and_the_same_seed_gives_the_same_weights(alias):
    generator = np.random.default_rng(0)
    series = generator.standard_normal((300, FEATURES)).astype(np.float32)
    returns = np.concatenate([[0.0], 0.5 * series[:-1, 0] - 0.3 * series[:-1, 2]])  # said by the newest step
    x, y = windows_before(series, returns, LENGTH)
    settings = FitSettings(epochs=15, batch_size=32, learning_rate=5e-3, seed=1)
    before = torch.get_rng_state()
    network = build(alias).train()
    fit = fit_next_returns(network, x, y, settings)
    assert torch.equal(torch.get_rng_state(), before)
    assert fit.losses[-1] < 0.5 * fit.losses[0]
    again = build(alias).train()
    assert fit_next_returns(again, x, y, settings).losses == fit.losses
    assert same_weights(network, again)


def test_an_autoencoder_learns_to_restore_its_windows():
    generator = np.random.default_rng(0)
    x = (generator.standard_normal((200, 1, 1)) * np.ones((200, LENGTH, FEATURES))).astype(np.float32)
    network = build("autoencoder", reconstruction_weight=1.0).train()
    fit = fit_reconstruction(network, x, FitSettings(epochs=20, batch_size=20))
    assert fit.head is None
    assert fit.losses[-1] < 0.1 * fit.losses[0]
    with pytest.raises(ComponentError, match="evaluation mode"):
        fit_reconstruction(network.eval(), x)
    for other in (build("autoencoder"), build("transformer")):
        with pytest.raises(ComponentError, match="no loss of its own"):
            fit_reconstruction(other, x)
