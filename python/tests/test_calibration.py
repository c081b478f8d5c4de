"""Calibrations, and what needs a GPU that is not there."""

import pytest

import pagelift


def paces(workers):
    return pagelift.Paces(pagelift.Pace(workers, workers * 10**9), pagelift.Pace(workers + 1, 5))


def test_each_way_has_its_pace():
    calibration = pagelift.Calibration(host_to_device=paces(1), device_to_host=paces(3), device_to_device=paces(5))
    ways = [("host", "device"), ("device", "host"), ("device", "device")]
    assert [calibration.pace(*way, "pages").workers for way in ways] == [1, 3, 5]
    assert [calibration.pace(*way, "rows").workers for way in ways] == [2, 4, 6]
    assert calibration.pace("host", "host", "pages") is None
    assert "device_to_host=Paces(Pace(3, 3000000000), Pace(4, 5))" in repr(calibration)
    with pytest.raises(ValueError, match="expected one of pages, rows"):
        calibration.pace("host", "device", "states")


def test_bytes_of_a_step():
    pace = pagelift.Pace(2, 50 * 10**9)
    assert (pace.workers, pace.bytes_per_second) == (2, 50 * 10**9)
    assert pace.bytes_within(200e-6) == 10_000_000 and pace.bytes_within(0) == 0
    for seconds in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="seconds is"):
            pace.bytes_within(seconds)
    with pytest.raises((ValueError, OverflowError)):
        pagelift.Pace(0, 1)
    with pytest.raises((ValueError, OverflowError)):
        pagelift.Pace(1, 0)


def test_copy_engines_are_a_gpus(cpu):
    with pytest.raises(TypeError):
        pagelift.CopyEngine(cpu, pagelift.Registry())
