"""Every backbone: shapes, causality, gradients, weights of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from alphaswarm_rl.core.contracts import EncoderRequest
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.policies.backbones.layers import Dropout, draw_from

from .backbone_cases import FEATURES, LENGTH, SMALL, WIDTH, build, double, windows

every_backbone = pytest.mark.parametrize("alias", SMALL)


@every_backbone
@pytest.mark.parametrize("batch", [1, 4])
def test_windows_become_features_of_the_asked_width_in_either_mode(alias, batch):
    network = build(alias)
    for mode in (True, False):
        network.train(mode)
        assert network(windows(batch)).shape == (batch, WIDTH)
    assert network.features_dim == WIDTH


@every_backbone
def test_a_width_of_its_own_goes_before_the_asked_one_and_128_is_the_last_resort(alias):
    assert build(alias, features_dim=7).features_dim == 7
    component = build_from_config({"class": alias, "kwargs": SMALL[alias]}, kind="policy_backbone")
    assert component.build(EncoderRequest(FEATURES, LENGTH)).features_dim == 128


@every_backbone
def test_features_of_a_window_do_not_depend_on_the_batch_it_is_in(alias):
    network, x = double(build(alias)), windows().double()
    alone = torch.cat([network(row[None]) for row in x])
    torch.testing.assert_close(network(x), alone, rtol=0, atol=1e-12)


@every_backbone
def test_every_step_of_the_window_matters(alias):
    network, x = double(build(alias)), windows(1).double().requires_grad_()
    network(x).square().sum().backward()
    assert (x.grad.abs().sum(-1) > 0).all()


@pytest.mark.parametrize("t", [0, 5, LENGTH - 2])
@pytest.mark.parametrize("pool", ["last", "mean"])
def test_future_noise_does_not_change_what_the_transformer_says_of_the_past(t, pool):
    network = double(build("transformer", pool=pool))
    x = windows().double()
    noisy = x.clone()
    noisy[:, t + 1 :] = torch.randn(4, LENGTH - t - 1, FEATURES, generator=torch.Generator().manual_seed(9)) * 100
    before, after = network.tokens(x), network.tokens(noisy)
    assert torch.equal(before[:, : t + 1], after[:, : t + 1])
    assert not torch.equal(before[:, t + 1 :], after[:, t + 1 :])


def test_a_transformer_token_is_what_its_prefix_alone_gives():
    network, x = double(build("transformer")), windows().double()
    whole = network.tokens(x)
    for t in (1, 4, 9):
        shorter = double(build("transformer", length=t))
        trained = network.state_dict()
        shorter.load_state_dict({**trained, "positions": trained["positions"][:t]})
        torch.testing.assert_close(shorter.tokens(x[:, :t])[:, -1], whole[:, t - 1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("t", [0, 5, LENGTH - 2])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_future_noise_does_not_change_what_the_recurrent_network_says_of_the_past(cell, t):
    network = double(build("recurrent", cell=cell))
    steps = windows().double().transpose(0, 1)
    noisy = steps.clone()
    noisy[t + 1 :] = torch.randn(LENGTH - t - 1, 4, FEATURES, generator=torch.Generator().manual_seed(9))
    state, starts = network.initial_state(4, "cpu", torch.float64), torch.zeros(LENGTH, 4, dtype=torch.bool)
    before, after = (network.forward_sequence(each, state, starts)[0] for each in (steps, noisy))
    torch.testing.assert_close(before[: t + 1], after[: t + 1], rtol=0, atol=1e-14)
    assert not torch.allclose(before[t + 1 :], after[t + 1 :])


@every_backbone
def test_a_gradient_reaches_every_parameter(alias):
    network = build(alias, dropout=0.0) if alias != "autoencoder" else build(alias, reconstruction_weight=0.5)
    x = windows(16)
    loss = network(x).square().sum()
    if alias == "autoencoder":
        loss = loss + network.auxiliary_loss(x)
    loss.backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@every_backbone
def test_one_seed_gives_one_network_and_the_global_generator_is_left_alone(alias):
    before = torch.get_rng_state()
    first, second, other = build(alias), build(alias), build(alias, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.isfinite(tensor).all() for tensor in first.state_dict().values())
    assert all(torch.equal(tensor, second.state_dict()[name]) for name, tensor in first.state_dict().items())
    assert not torch.equal(first(windows()), other(windows()))


def test_first_weights_have_the_scale_that_torch_gives_them():
    network = build_from_config({"class": "recurrent"}, kind="policy_backbone").build(EncoderRequest(64, 4, 256))
    bound = 128**-0.5
    assert network.head.weight.abs().max() <= bound
    assert network.head.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)
    assert network.layers[0].weight_hh_l0.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)
    positions = build_from_config({"class": "transformer"}, kind="policy_backbone").build(EncoderRequest(2, 100))
    assert positions.positions.std().item() == pytest.approx(0.02, rel=0.05)


@every_backbone
def test_windows_of_another_size_are_refused(alias):
    network = build(alias)
    for wrong in (windows(length=LENGTH - 1), windows(features=FEATURES + 1), windows()[0]):
        with pytest.raises(ComponentError, match="was built for"):
            network(wrong)


@pytest.mark.parametrize("alias", ["transformer", "recurrent", "patch_tst"])
def test_dropout_acts_in_training_only_and_draws_from_the_generator_it_is_given(alias):
    network, x = build(alias, dropout=0.5), windows()
    assert torch.equal(network(x), network(x))
    network.train()
    before = torch.get_rng_state()
    outputs = []
    for seed in (1, 1, 2):
        draw_from(network, torch.Generator().manual_seed(seed))
        outputs.append(network(x))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_dropout_keeps_the_mean():
    dropout = Dropout(0.25).train()
    draw_from(dropout, torch.Generator().manual_seed(0))
    dropped = dropout(torch.ones(100_000))
    assert dropped.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert (dropped == 0).double().mean().item() == pytest.approx(0.25, abs=0.01)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.01)


def test_the_reconstruction_loss_is_the_weighted_mean_squared_error():
    network, x = build("autoencoder", reconstruction_weight=0.3), windows()
    restored = network.decoder(network(x)).view_as(x)
    expected = 0.3 * sum(((restored - x) ** 2).flatten().tolist()) / x.numel()
    assert network.auxiliary_loss(x).item() == pytest.approx(expected, rel=1e-5)
    assert [layer.out_features for layer in network.decoder if hasattr(layer, "out_features")] == [
        8,
        16,
        LENGTH * FEATURES,
    ]
    assert build("autoencoder").auxiliary_loss(x).item() == 0
    assert build("autoencoder").decoder is None


@pytest.mark.parametrize(
    ("alias", "kwargs", "why"),
    [
        ("transformer", {"d_model": 10, "heads": 4}, "no multiple"),
        ("patch_tst", {"d_model": 10, "heads": 4}, "no multiple"),
        ("patch_tst", {"patch": 2, "stride": 3}, "leave steps out"),
        ("transformer", {"frozen": True}, "frozen has no effect without weights"),
        ("recurrent", {"sha256": "0" * 64}, "sha256 has no effect without weights"),
        ("autoencoder", {"weights": "x", "frozen": True, "reconstruction_weight": 1.0}, "no effect on a frozen"),
        ("recurrent", {"bidirectional": True}, "unknown key"),
        ("recurrent", {"dropout": 1.0}, "less than 1"),
    ],
)
def test_parameters_that_cannot_be(alias, kwargs, why):
    with pytest.raises(ComponentError, match=why):
        build_from_config({"class": alias, "kwargs": kwargs}, kind="policy_backbone")


def test_networks_fitting_and_files_load_nothing_of_reinforcement_learning():
    modules = ["networks", "fitting", "files", "layers"]
    imports = "; ".join(f"import alphaswarm_rl.policies.backbones.{module}" for module in modules)
    code = (
        f"import sys; {imports}; "
        "found = [name for name in sys.modules if name.partition('.')[0] in ('gymnasium', 'stable_baselines3')"
        " or name.startswith(('alphaswarm_rl.agents', 'alphaswarm_rl.envs'))]; assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
