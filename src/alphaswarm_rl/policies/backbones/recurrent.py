"""The recurrent network."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveInt

from alphaswarm_rl.policies.backbones.base import Backbone, BackboneConfig, dropout_field


class RecurrentBackbone(Backbone):
    """An LSTM, GRU or plain recurrent network from the oldest step to the newest, whose last output is the features.

    It reads windows, or carries its state from step to step (`forward_sequence`) and forgets where episodes start. It
    is never bidirectional. (Hochreiter and Schmidhuber 1997; Cho 2014.)
    """

    rl_alias = "recurrent"
    rl_tags = ("recurrent",)

    class Config(BackboneConfig):
        """Parameters of the recurrent network."""

        cell: Literal["lstm", "gru", "rnn"] = Field("lstm", description="Kind of the cells.")
        hidden: PositiveInt = Field(128, description="Width of a layer's state.")
        layers: PositiveInt = Field(2, description="Layers.")
        dropout: float = dropout_field(0.1)

    def network(self, features: int, length: int, features_dim: int) -> Any:
        """The bare network."""
        from alphaswarm_rl.policies.backbones.recurrent_network import RecurrentNetwork

        c = self.config
        return RecurrentNetwork(
            features, length, features_dim, cell=c.cell, hidden=c.hidden, layers=c.layers, dropout=c.dropout
        )
