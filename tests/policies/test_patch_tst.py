"""The patch transformer: patches, normalisation, and what holds when features change places."""

from __future__ import annotations

import pytest
import torch

from alphaswarm_rl.core.contracts import EncoderRequest
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.refs import build_from_config

from .backbone_cases import FEATURES, LENGTH, build, double, windows


def test_patches_by_hand():
    network = build("patch_tst", features=1, length=7)  # patch 4, stride 2
    x = torch.arange(1.0, 8.0).view(1, 7, 1)
    assert network.patches == (7 - 4) // 2 + 2 == 3
    assert network.cut(x)[0, 0].tolist() == [[1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7, 7]]


def test_the_defaults_of_the_paper_have_42_patches_of_336_steps():
    network = build_from_config({"class": "patch_tst"}, kind="policy_backbone").build(EncoderRequest(2, 336))
    assert network.patches == 42
    assert network(torch.randn(2, 336, 2)).shape == (2, 128)


def test_normalisation_takes_out_mean_and_deviation_and_hands_them_on():
    network = double(build("patch_tst"))
    x = windows().double()
    normal, mean, deviation = network.normalise(x)
    for feature in range(FEATURES):
        series = x[0, :, feature].tolist()
        average = sum(series) / LENGTH
        spread = (sum((value - average) ** 2 for value in series) / LENGTH + 1e-5) ** 0.5
        assert mean[0, feature].item() == pytest.approx(average, abs=1e-12)
        assert deviation[0, feature].item() == pytest.approx(spread, abs=1e-12)
        assert normal[0, 3, feature].item() == pytest.approx((series[3] - average) / spread, abs=1e-10)


def test_level_and_volatility_reach_the_features_although_the_patches_do_not_see_them():
    network, x = double(build("patch_tst")), windows().double()
    moved = 3 * x + 10
    tokens = [network.patch_tokens(network.normalise(each)[0]) for each in (x, moved)]
    torch.testing.assert_close(tokens[0], tokens[1], rtol=0, atol=1e-4)
    assert (network(x) - network(moved)).abs().max() > 0.1


def test_a_feature_that_does_not_move_is_no_division_by_zero():
    network, x = build("patch_tst"), windows()
    x[:, :, 1] = 4.0
    assert torch.isfinite(network(x)).all()


@pytest.mark.parametrize("order", [[1, 0, 2], [2, 0, 1]])
def test_features_that_change_places_with_their_affine_parameters_change_the_tokens_places_only(order):
    network, x = double(build("patch_tst")), windows().double()
    with torch.no_grad():
        network.scale.copy_(torch.tensor([0.5, 1.0, 2.0]))
        network.shift.copy_(torch.tensor([0.1, 0.0, -0.3]))
    tokens = network.patch_tokens(network.normalise(x)[0])
    with torch.no_grad():
        network.scale.copy_(network.scale[order])
        network.shift.copy_(network.shift[order])
    reordered = network.patch_tokens(network.normalise(x[:, :, order])[0])
    torch.testing.assert_close(reordered, tokens[:, order], rtol=0, atol=1e-12)


def test_the_tokens_of_one_feature_do_not_depend_on_the_others():
    network, x = double(build("patch_tst")), windows().double()
    other = x.clone()
    other[:, :, 1:] = 5.0
    before, after = (network.patch_tokens(network.normalise(each)[0]) for each in (x, other))
    torch.testing.assert_close(before[:, 0], after[:, 0], rtol=0, atol=1e-12)


def test_a_window_shorter_than_a_patch_is_refused():
    with pytest.raises(ComponentError, match="3 steps are shorter than a patch of 4"):
        build("patch_tst", length=3)
    assert build("patch_tst", length=4).patches == 2
