"""Inference is tested with runs: their fixtures are the runtime's."""

from tests.runtime.conftest import ledger, train

__all__ = ["ledger", "train"]
