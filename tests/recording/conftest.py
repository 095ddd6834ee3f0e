from tests.runtime.conftest import ledger, train

__all__ = ["ledger", "train"]
