"""Specs and runs for the tests of the ledger."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from alphaswarm_rl.db.database import open_ready
from alphaswarm_rl.db.schema import LEDGER
from alphaswarm_rl.ledger import Ledger, RunRow


@dataclass(frozen=True)
class SampleSpec:
    """What the ledger needs of a spec, with a content of one number."""

    slug: str = "cartpole"
    number: int = 1
    name: str = "Cart pole"
    kind: str = "single"
    description: str = "Balances a pole."
    annotations: list[str] = field(default_factory=lambda: ["demo"])
    component_versions: dict[str, int] = field(default_factory=lambda: {"agent:ppo": 1})

    @property
    def spec_hash(self) -> str:
        return hashlib.sha256(f"{self.slug} {self.number}".encode()).hexdigest()

    @property
    def exec_hash(self) -> str:
        return hashlib.sha256(f"{self.number}".encode()).hexdigest()

    def as_data(self) -> dict[str, Any]:
        return {"slug": self.slug, "number": self.number, "rate": 3e-4, "nothing": None}

    def to_yaml(self) -> str:
        return f"slug: {self.slug}\nnumber: {self.number}\n"


def open_ledger(url: str) -> Ledger:
    """The ledger itself, of no home."""
    return Ledger(open_ready(url, LEDGER))


def new_run(ledger: Ledger, **columns: Any) -> RunRow:
    version = ledger.persist_spec(SampleSpec())
    return ledger.create_run(**{"version_id": version.id, "target": "train", "seed": 7, **columns})


def segment_ref(run_id: str, segment: int, **fields: Any) -> dict[str, Any]:
    """What the ledger is told of a file with one segment of steps."""
    kind = fields.get("kind", "trajectories")
    own = {} if kind == "equity_curves" else {"first_step": 0, "last_step": 99}
    return {
        "kind": kind,
        "run_id": run_id,
        "phase": "train",
        "first_episode": 0,
        "last_episode": 9,
        "timesteps": 100,
        "iceberg_namespace": "rl",
        "iceberg_table": "trajectories",
        "row_count": 10,
        "checksum": "00000000000000ff",
        "first_segment": segment,
        "last_segment": segment,
        **own,
        **fields,
    }
