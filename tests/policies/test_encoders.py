"""From observations of any space to features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.kinds import TimeSeriesEncoder
from alphaswarm_rl.policies.backbones.encoders import build_encoder, window_shape

from .backbone_cases import FEATURES, LENGTH, SMALL, build, windows

FLAT = spaces.Box(-1, 1, (LENGTH * FEATURES,), np.float32)
WINDOW = spaces.Box(-1, 1, (LENGTH, FEATURES), np.float32)


def ref(alias, **kwargs):
    return {"class": alias, "kwargs": SMALL[alias] | kwargs}


def test_windows_are_taken_as_they_are_and_flat_observations_are_cut_into_rows():
    assert window_shape(WINDOW, None, encoder="x") == (LENGTH, FEATURES)
    assert window_shape(WINDOW, LENGTH, encoder="x") == (LENGTH, FEATURES)
    assert window_shape(FLAT, 4, encoder="x") == (4, 9)


@pytest.mark.parametrize(
    ("space", "length", "why"),
    [
        (FLAT, None, "nobody says how many steps"),
        (FLAT, 5, "36 numbers cannot be cut into 5"),
        (FLAT, 40, "36 numbers cannot be cut into 40"),
        (WINDOW, 6, "length is 6, and the observation has 12"),
        (spaces.Box(0, 1, (2, 3, 4)), None, "reads steps of numbers"),
        (spaces.Box(0, 1, ()), None, "reads steps of numbers"),
        (spaces.Discrete(3), 1, "reads steps of numbers"),
        (spaces.Dict({"a": WINDOW}), None, "reads steps of numbers"),
    ],
)
def test_observations_without_steps_are_refused(space, length, why):
    with pytest.raises(ComponentError, match=why):
        window_shape(space, length, encoder="transformer")


@pytest.mark.parametrize("alias", SMALL)
def test_a_backbone_reads_rows_the_oldest_first(alias):
    x = windows()
    whole = build_encoder(WINDOW, ref(alias), 5).eval()
    flat = build_encoder(FLAT, ref(alias, length=LENGTH), 5).eval()
    expected = build(alias)(x)
    assert torch.equal(whole(x), expected)
    assert torch.equal(flat(x.flatten(1)), expected)
    assert torch.equal(build_encoder(FLAT, ref(alias), 5, length=LENGTH).eval()(x.flatten(1)), expected)
    assert torch.equal(whole(x.double()), expected)


def test_stacked_frames_are_the_rows_of_a_flat_observation():
    from alphaswarm_rl.envs.observation_transform import ObservationSettings, ObservationTransform

    transform = ObservationTransform(spaces.Box(-9, 9, (2,), np.float32), ObservationSettings(stack_frames=3))
    for step in range(3):
        frame = np.array([[10 * step, 10 * step + 1]], np.float32)
        stacked = transform.apply(frame, np.array([step == 0]))
    steps, features = window_shape(transform.space, 3, encoder="x")
    assert stacked.reshape(steps, features).tolist() == [[0, 1], [10, 11], [20, 21]]


def test_an_alias_alone_and_a_width_of_its_own():
    assert build_encoder(WINDOW, "transformer", 9).features_dim == 9
    assert build_encoder(WINDOW, ref("transformer", features_dim=3), 9).features_dim == 3
    with pytest.raises(ComponentError, match="transformer"):
        build_encoder(WINDOW, "transfomer", 9)


def test_a_recurrent_encoder_carries_its_state_over_observations_of_one_step():
    space = spaces.Box(-1, 1, (FEATURES,), np.float32)
    encoder = build_encoder(space, ref("recurrent"), 5, length=1).eval()
    network, x = build("recurrent", length=1), windows().transpose(0, 1)
    starts = torch.zeros(LENGTH, 4, dtype=torch.bool)
    starts[3, 1] = True
    features, state = encoder.forward_sequence(x, encoder.initial_state(4, "cpu"), starts)
    expected, expected_state = network.forward_sequence(x, network.initial_state(4, "cpu"), starts)
    assert encoder.recurrent
    assert torch.equal(features, expected)
    assert torch.equal(state, expected_state)
    for other in (build_encoder(WINDOW, ref("recurrent"), 5), build_encoder(space, ref("transformer"), 5, length=1)):
        assert not other.recurrent
        with pytest.raises(ComponentError, match="no state"):
            other.forward_sequence(x, state, starts)


def test_in_training_the_backbones_own_loss_is_added_to_any_loss_of_its_features():
    encoder = build_encoder(WINDOW, ref("autoencoder", reconstruction_weight=0.5), 5)
    network, x = build("autoencoder", reconstruction_weight=0.5), windows()
    (network(x).sum() + network.auxiliary_loss(x)).backward()
    encoder.train()
    encoder(x).sum().backward()
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(encoder.backbone.get_parameter(name).grad, parameter.grad)
    encoder.zero_grad()
    encoder.eval()
    encoder(x).sum().backward()
    assert all(parameter.grad is None for parameter in encoder.backbone.decoder.parameters())


DICT = spaces.Dict(
    {
        "b": spaces.Box(-1, 1, (2, 2)),
        "a": spaces.Discrete(3, start=1),
        "c": spaces.MultiDiscrete([2, 3]),
        "d": spaces.MultiBinary(2),
    }
)


def test_mlp_flattens_and_joins_the_parts_of_a_dict():
    encoder = build_encoder(DICT, "mlp", 4)
    batch = {
        "a": torch.tensor([2, 3]),
        "b": torch.tensor([[[0.1, 0.2], [0.3, 0.4]]] * 2),
        "c": torch.tensor([[1, 0], [0, 2]]),
        "d": torch.tensor([[1, 0], [1, 1]]),
    }
    hot = {"a": [0, 1, 0], "b": [0.1, 0.2, 0.3, 0.4], "c": [0, 1, 1, 0, 0], "d": [1, 0]}
    row = torch.tensor([value for key in DICT.spaces for value in hot[key]], dtype=torch.float32)
    assert encoder.embed[0].in_features == 14
    torch.testing.assert_close(encoder(batch)[0], encoder.embed(row))
    assert encoder(batch).shape == (2, 4)
    assert encoder.features_dim == 4
    with pytest.raises(ComponentError, match="cannot flatten Tuple"):
        build_encoder(spaces.Tuple([WINDOW]), "mlp", 4)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_pictures_may_have_their_channels_first_or_last(dtype):
    first = build_encoder(spaces.Box(0, 255, (3, 40, 36), dtype), "cnn", 6)
    last = build_encoder(spaces.Box(0, 255, (40, 36, 3), dtype), "cnn", 6)
    pictures = torch.randint(0, 256, (2, 3, 40, 36), generator=torch.Generator().manual_seed(0))
    pictures = pictures.to(torch.uint8 if dtype == np.uint8 else torch.float32)
    features = first(pictures)
    assert features.shape == (2, 6)
    torch.testing.assert_close(last(pictures.permute(0, 2, 3, 1)), features)
    torch.testing.assert_close(last(pictures.permute(0, 2, 3, 1).flatten(1)), features)
    scaled = pictures.float() / 255 if dtype == np.uint8 else pictures
    torch.testing.assert_close(first.embed(first.convolutions(scaled)), features)


def test_what_is_no_picture_is_refused():
    with pytest.raises(ComponentError, match="three dimensions"):
        build_encoder(FLAT, "cnn", 4)
    with pytest.raises(ComponentError, match="36 by 36 at least, not 20 by 40"):
        build_encoder(spaces.Box(0, 255, (20, 40, 3), np.uint8), "cnn", 4)


@pytest.mark.parametrize(("space", "encoder"), [(DICT, "mlp"), (WINDOW, "cnn"), (WINDOW, "recurrent")])
def test_one_seed_gives_one_encoder_without_a_draw_from_the_global_generator(space, encoder):
    space = spaces.Box(0, 255, (36, 36, 1), np.uint8) if encoder == "cnn" else space
    before = torch.get_rng_state()
    first, second, other = (build_encoder(space, encoder, 4, seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    assert not all(torch.equal(tensor, other[name]) for name, tensor in first.items())


class LastStep(TimeSeriesEncoder):
    """A backbone of somebody else's: a layer on the newest step."""

    rl_alias = "test_last_step"

    def build(self, request):
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(request.features * request.length, 2))
        network.features_dim = 2
        return network


def test_any_registered_backbone_is_an_encoder_and_leaves_the_global_generator_as_it_was():
    before = torch.get_rng_state()
    first, second, other = (build_encoder(WINDOW, "test_last_step", 9, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert first.features_dim == 2
    assert torch.equal(first(windows()), second(windows()))
    assert not torch.equal(first(windows()), other(windows()))
