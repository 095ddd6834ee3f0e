"""Whole steps as CUDA graphs: launched at once, where launching kernel by kernel takes longer than they run.

A graph reads and writes the same memory in every launch. So there is one for each pair of storages that a caller hands
in, as an agent does with the rows of its rollout, made when the pair comes for the second time; steps without storage
of the caller's run as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

#: Pairs of storages that are remembered: rollouts longer than this run as they are.
_MOST = 1024
#: Steps that run as they are before any graph is made: what they compile must not be in one.
_WARM_UP = 3

#: Takes actions and the two storages, steps, and gives the results that are of no caller's memory.
Step = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]


@dataclass(frozen=True)
class _Graph:
    """A recorded step: what it reads, and its results, those of one type in one tensor."""

    graph: torch.cuda.CUDAGraph
    actions: Tensor
    packed: dict[torch.dtype, Tensor]
    places: tuple[tuple[torch.dtype, int], ...]


class StepGraphs:
    """Steps of one environment.

    Args:
        step: The step; it must find its state in the same tensors each time, and leave it there.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self._graphs: dict[tuple[object, ...], _Graph | None] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self._steps = 0

    def __call__(self, actions: Tensor, out: Tensor, final: Tensor) -> tuple[Tensor, ...]:
        """The results of a step, in memory of their own."""
        # Memory that was freed may come back as storage of another form: a graph writes where it was recorded to.
        key = (out.data_ptr(), out.stride(), final.data_ptr(), final.stride(), actions.dtype)
        self._steps += 1
        graph = self._graphs.get(key)
        if graph is None:
            if key not in self._graphs or self._steps <= _WARM_UP:
                if len(self._graphs) < _MOST:
                    self._graphs[key] = None
                return self._step(actions, out, final)
            graph = self._graphs[key] = self._record(actions, out, final)
        graph.actions.copy_(actions)
        graph.graph.replay()
        copies = {kind: tensor.clone().unbind() for kind, tensor in graph.packed.items()}
        return tuple(copies[kind][index] for kind, index in graph.places)

    def _record(self, actions: Tensor, out: Tensor, final: Tensor) -> _Graph:
        mine = actions.clone()
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(actions.device)
        with torch.cuda.graph(graph, pool=self._pool):
            results = self._step(mine, out, final)
            kinds: dict[torch.dtype, list[Tensor]] = {}
            places = []
            for result in results:
                places.append((result.dtype, len(kinds.setdefault(result.dtype, []))))
                kinds[result.dtype].append(result)
            packed = {kind: torch.stack(tensors) for kind, tensors in kinds.items()}
        return _Graph(graph, mine, packed, tuple(places))
