import os

import pytest
import torch


def pytest_configure(config):
    config.addinivalue_line("markers", "long: runs only with ANTEGRAD_TEST_LONG")


def pytest_collection_modifyitems(items):
    if not os.environ.get("ANTEGRAD_TEST_LONG"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="runs only with ANTEGRAD_TEST_LONG"))


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    torch._dynamo.reset()
