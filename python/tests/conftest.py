"""What the tests share: the options, a backend, and a world of random memory."""

import numpy as np
import pytest

import pagelift
from driver import Driver
from world import World


def pytest_addoption(parser):
    parser.addoption("--random-steps", type=int, default=4_000, help="random calls on a GPU in software (100,000 by hand)")
    parser.addoption("--leak-steps", type=int, default=20_000, help="steps of the leak tests (a million by hand)")
    parser.addoption("--replays", type=int, default=2_000, help="replays of the leak test on a GPU (100,000 by hand)")


@pytest.fixture(scope="session")
def cpu():
    return pagelift.Cpu(threads=2)


@pytest.fixture(scope="session")
def driver():
    found = Driver.found()
    return found or pytest.skip("needs the driver in software as libcuda.so.1")


@pytest.fixture(params=range(4))
def rng(request):
    return np.random.default_rng([7, request.param])


@pytest.fixture
def world(cpu, rng):
    return World(cpu, rng)
