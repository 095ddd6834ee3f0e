"""The gradient by hand is autograd's, and all three forms of the networks are the same networks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaswarm_rl.agents.native import kernels, torch_layers
from alphaswarm_rl.agents.native.action_head import ActionHead
from alphaswarm_rl.agents.native.actor_critic import LossSettings, Minibatch, NetworkShape, noise_of
from alphaswarm_rl.agents.native.numpy_actor_critic import NumpyActorCritic
from alphaswarm_rl.agents.native.torch_actor_critic import DeviceActorCritic, TorchActorCritic, adam_factors

INPUTS = 5
HEADS = {
    "discrete": spaces.Discrete(3, start=1),
    "multi_discrete": spaces.MultiDiscrete([2, 3]),
    "multi_binary": spaces.MultiBinary(3),
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "unbounded": spaces.Box(-np.inf, np.inf, (2,), np.float32),
}


def loss_settings(**given: Any) -> LossSettings:
    return LossSettings(
        **{
            "clip_range": 0.2,
            "clip_range_vf": None,
            "clip_vf_form": "max",
            "ent_coef": 0.01,
            "vf_coef": 0.5,
            "max_grad_norm": math.inf,
            "adam_eps": 1e-5,
            **given,
        }
    )


def a_batch(head: ActionHead, net: Any, seed: int, count: int, *, masked: bool, kind: Any = np.float64) -> Minibatch:
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(count, INPUTS)).astype(kind)
    masks = None
    if masked and head.discrete:
        masks = rng.random((count, head.outputs)) < 0.6
        first = np.cumsum([0, *head.sizes[:-1]])
        masks[:, first] = True
    drawn, log_probs, values, _ = net.draw(observations, noise_of(head, rng, count).astype(kind), masks)
    return Minibatch(
        observations=observations,
        actions=drawn,
        log_probs=(log_probs + rng.normal(0, 0.3, count)).astype(kind),
        advantages=rng.normal(size=count).astype(kind),
        returns=rng.normal(size=count).astype(kind),
        values=(values + rng.normal(0, 0.3, count)).astype(kind),
        masks=masks,
    )


def autograd(net: NumpyActorCritic, batch: Minibatch, loss: LossSettings, activation: str) -> dict[str, Any]:
    """The gradient by torch, with the loss written out plainly."""
    head = net.head
    p = {name: torch.tensor(array, dtype=torch.float64, requires_grad=True) for name, array in net.weights().items()}
    act = torch.tanh if activation == "tanh" else torch.relu
    seen = torch.tensor(batch.observations)
    policy = value = seen
    for layer in range(sum(name.startswith("pi.") for name in p) // 2):
        policy = act(policy @ p[f"pi.{layer}.weight"].T + p[f"pi.{layer}.bias"])
    for layer in range(sum(name.startswith("vf.") for name in p) // 2):
        value = act(value @ p[f"vf.{layer}.weight"].T + p[f"vf.{layer}.bias"])
    outputs = policy @ p["action.weight"].T + p["action.bias"]
    values = (value @ p["value.weight"].T + p["value.bias"])[:, 0]
    actions = torch.tensor(batch.actions)
    if head.discrete:
        if batch.masks is not None:
            outputs = outputs.masked_fill(~torch.tensor(batch.masks), -1e30)
        parts = [torch.distributions.Categorical(logits=part) for part in outputs.split(head.sizes, dim=1)]
        log_probs = sum(part.log_prob(actions[:, index]) for index, part in enumerate(parts))
        entropy = sum(part.entropy() for part in parts)
    else:
        normal = torch.distributions.Normal(outputs, p["log_std"].exp())
        log_probs, entropy = normal.log_prob(actions).sum(1), normal.entropy().sum(1)
    ratio = (log_probs - torch.tensor(batch.log_probs)).exp()
    advantages = torch.tensor(batch.advantages)
    surrogate = torch.min(ratio * advantages, ratio.clamp(1 - loss.clip_range, 1 + loss.clip_range) * advantages)
    errors = (values - torch.tensor(batch.returns)) ** 2
    if loss.clip_range_vf is not None:
        old = torch.tensor(batch.values)
        near = old + (values - old).clamp(-loss.clip_range_vf, loss.clip_range_vf)
        clipped = (near - torch.tensor(batch.returns)) ** 2
        # Stable-Baselines3's own line is: value_loss = F.mse_loss(rollout_data.returns, values_pred), clipped values.
        errors = clipped if loss.clip_vf_form == "sb3" else torch.max(errors, clipped)
    (-surrogate.mean() + loss.vf_coef * errors.mean() - loss.ent_coef * entropy.mean()).backward()
    return {
        name: tensor.grad.numpy() if tensor.grad is not None else np.zeros(tensor.shape) for name, tensor in p.items()
    }


@settings(max_examples=60, deadline=None)
@given(
    space=st.sampled_from(sorted(HEADS)),
    pi=st.lists(st.integers(1, 6), max_size=3),
    same=st.booleans(),
    activation=st.sampled_from(["tanh", "relu"]),
    clip_vf=st.sampled_from([None, 0.1]),
    form=st.sampled_from(["max", "sb3"]),
    masked=st.booleans(),
    seed=st.integers(0, 10_000),
    count=st.integers(1, 17),
)
def test_the_gradient_by_hand_is_autograds(space, pi, same, activation, clip_vf, form, masked, seed, count) -> None:
    head = ActionHead.of(HEADS[space])
    shape = NetworkShape(INPUTS, tuple(pi), tuple(pi) if same else (4,), head, activation)
    rng = np.random.default_rng(seed)
    net = NumpyActorCritic(shape, rng, np.float64)
    net.parameters += rng.normal(0, 0.3, len(net.parameters))
    batch = a_batch(head, net, seed, count, masked=masked)
    loss = loss_settings(clip_range_vf=clip_vf, clip_vf_form=form)
    net.differentiate(batch, loss, loss.clip_range)
    expected = autograd(net, batch, loss, activation)
    for name, gradient in net.layout.to_named(net.gradient).items():
        np.testing.assert_allclose(gradient, expected[name], rtol=1e-6, atol=1e-9, err_msg=name)


def test_the_two_forms_of_the_clipped_value_loss() -> None:
    """Old value 0, clip 0.1. A new value of 0.5 beside a return of 1 is better than the clipped 0.1; beside 0 worse."""
    values, returns, old = np.array([0.5, 0.5]), np.array([1.0, 0.0]), np.zeros(2)
    losses, slopes = [], []
    for worse in (False, True):
        gradient, statistics = np.zeros(2), np.zeros(5)
        kernels.value_loss(values, returns, old, 0.1, worse, 1.0, gradient, statistics)
        losses.append(statistics[1])
        slopes.append(gradient.tolist())
    np.testing.assert_allclose(losses, [(0.9**2 + 0.1**2) / 2, (0.9**2 + 0.5**2) / 2])
    # Stable-Baselines3's form pulls back no value beyond the range; the other does where that is the worse one.
    assert slopes == [[0.0, 0.0], [0.0, 0.5]]


@pytest.mark.parametrize("space", HEADS)
@pytest.mark.parametrize("form", ["max", "sb3"])
@pytest.mark.parametrize("vf", [(8, 8), (4,)])
def test_by_hand_through_torch_and_on_a_device_learn_the_same(space: str, vf: tuple[int, ...], form: str) -> None:
    head = ActionHead.of(HEADS[space])
    shape = NetworkShape(INPUTS, (8, 8), vf, head)
    hand = NumpyActorCritic(shape, np.random.default_rng(1))
    through = TorchActorCritic(shape, np.random.default_rng(1))
    device = DeviceActorCritic(shape, np.random.default_rng(1), device=torch.device("cpu"))
    loss = loss_settings(max_grad_norm=0.5, clip_range_vf=0.2, clip_vf_form=form)
    for step in range(20):
        batch = a_batch(head, hand, step, 64, masked=True, kind=np.float32)
        expected = hand.learn(batch, loss, 1e-3, 0.2)
        np.testing.assert_allclose(through.learn(batch, loss, 1e-3, 0.2), expected, rtol=1e-4, atol=1e-5)
        tensors = batch.map(torch.tensor)
        np.testing.assert_allclose(device.learn(tensors, loss, 1e-3, 0.2).numpy(), expected, rtol=1e-4, atol=1e-5)
    for name, weight in hand.weights().items():
        np.testing.assert_allclose(through.weights()[name], weight, rtol=1e-3, atol=2e-5, err_msg=name)
        np.testing.assert_allclose(device.weights()[name], weight, rtol=1e-3, atol=2e-5, err_msg=name)
    assert set(hand.weights()) == set(through.weights()) == set(device.weights())
    for one, other in zip(hand.optimiser()[:2], through.optimiser()[:2], strict=True):
        for name, moment in one.items():
            np.testing.assert_allclose(other[name], moment, rtol=1e-2, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("space", HEADS)
def test_weights_and_optimiser_go_from_one_form_to_another(space: str) -> None:
    head = ActionHead.of(HEADS[space])
    shape = NetworkShape(INPUTS, (8,), (8,), head)
    hand = NumpyActorCritic(shape, np.random.default_rng(1))
    through = TorchActorCritic(shape, np.random.default_rng(2))
    batch = a_batch(head, hand, 0, 32, masked=False, kind=np.float32)
    hand.learn(batch, loss_settings(), 1e-2, 0.2)
    through.set_weights(hand.weights())
    through.set_optimiser(*hand.optimiser())
    for name, weight in through.weights().items():
        np.testing.assert_array_equal(weight, hand.weights()[name])
    learnt = [net.learn(batch, loss_settings(), 1e-2, 0.2) for net in (through, hand)]
    np.testing.assert_allclose(*learnt, rtol=1e-4, atol=1e-6)


def plain_adam(parameters: Any, gradients: list[Any], rate: float, epsilon: float) -> Any:
    """Adam as its authors write it (Kingma and Ba, 2015, algorithm 1), in float64."""
    first = second = np.zeros(len(parameters))
    for step, gradient in enumerate(gradients, start=1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        parameters = parameters - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + epsilon)
    return parameters


@pytest.mark.parametrize("backend", ["numba", "torch", "torch's own"])
def test_every_adam_is_adam(backend: str) -> None:
    """That of the kernels, that on tensors, and the one of torch that the Q-function learns by."""
    rng = np.random.default_rng(0)
    start = rng.normal(size=50)
    gradients = [rng.normal(size=50) * 10.0 ** rng.uniform(-3, 1) for _ in range(30)]
    parameters, first, second = start.copy(), np.zeros(50), np.zeros(50)
    tensors = [torch.from_numpy(array) for array in (parameters, first, second)]
    parameter = torch.nn.Parameter(tensors[0])
    library = torch.optim.Adam([parameter], lr=1e-2, eps=1e-5, fused=True)
    for step, gradient in enumerate(gradients, start=1):
        if backend == "numba":
            kernels.adam(parameters, 2.0 * gradient, first, second, step, 1e-2, 1e-5, 0.5)
        elif backend == "torch":
            moments = tensors[1], tensors[2]
            torch_layers.adam(tensors[0], torch.from_numpy(gradient), moments, *adam_factors(1e-2, step), 1e-5)
        else:
            parameter.grad = torch.from_numpy(gradient)
            library.step()
    np.testing.assert_allclose(parameters, plain_adam(start, gradients, 1e-2, 1e-5), rtol=1e-9)


def test_drawn_choices_have_the_softmax_frequencies() -> None:
    head = ActionHead.of(spaces.Discrete(3))
    net = NumpyActorCritic(NetworkShape(1, (), (), head), np.random.default_rng(0))
    net.set_weights(
        {
            "action.weight": np.array([[0.0], [1.0], [2.0]]),
            "action.bias": np.zeros(3),
            "value.weight": np.zeros((1, 1)),
            "value.bias": np.zeros(1),
        }
    )
    count = 20_000
    noise = noise_of(head, np.random.default_rng(1), count)
    drawn, log_probs, _, _ = net.draw(np.ones((count, 1), np.float32), noise, None)
    expected = np.exp([0.0, 1.0, 2.0]) / np.exp([0.0, 1.0, 2.0]).sum()
    frequency = np.bincount(drawn[:, 0], minlength=3) / count
    np.testing.assert_allclose(frequency, expected, atol=4 * math.sqrt(0.25 / count))
    np.testing.assert_allclose(np.exp(log_probs), expected[drawn[:, 0]], rtol=1e-5)
    masks = np.zeros((count, 3), np.bool_)
    masks[:, 1] = True
    drawn, log_probs, _, _ = net.draw(np.ones((count, 1), np.float32), noise, masks)
    assert (drawn == 1).all()
    np.testing.assert_allclose(log_probs, 0.0, atol=1e-6)


def test_bounded_numbers_are_drawn_between_minus_one_and_one() -> None:
    space = spaces.Box(np.array([0.0, -np.inf], np.float32), np.array([10.0, np.inf], np.float32))
    head = ActionHead.of(space)
    given = np.array([[-1.0, 7.0], [0.0, -7.0], [1.0, 0.0], [5.0, 100.0]], np.float32)
    np.testing.assert_array_equal(head.to_env(given), [[0.0, 7.0], [5.0, -7.0], [10.0, 0.0], [10.0, 100.0]])
    assert head.to_env(given).dtype == np.float32
    choice = ActionHead.of(spaces.Discrete(3, start=-1))
    np.testing.assert_array_equal(choice.to_env(np.array([[0], [2]])), [-1, 1])
