"""The components under test, which an installed distribution would find by its entry points."""

import pytest


@pytest.fixture(autouse=True)
def _one_thread():
    """Networks this small are slower on several threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
