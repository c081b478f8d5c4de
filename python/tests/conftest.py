"""What the tests share: the options, a backend, and a world of random memory."""

import numpy as np
import pytest

import pagelift
from world import World


def pytest_addoption(parser):
    parser.addoption("--leak-steps", type=int, default=20_000, help="steps of the leak tests (a million by hand)")
    parser.addoption("--replays", type=int, default=2_000, help="replays of the leak test on a GPU (100,000 by hand)")


@pytest.fixture(scope="session")
def cpu():
    return pagelift.Cpu(threads=2)


@pytest.fixture(params=range(4))
def rng(request):
    return np.random.default_rng([7, request.param])


@pytest.fixture
def world(cpu, rng):
    return World(cpu, rng)
