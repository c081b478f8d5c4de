"""The bench: its arithmetic, its report and its picture; and, where PyTorch is, all of it on the CPU."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

BENCHES = Path(__file__).parent.parent / "benches"
sys.path.insert(0, str(BENCHES))

import picture
import report
from merge import runs


def case(**fields):
    samples = {"ours": [2.0, 4.0, 3.0], "theirs": [4.0, 12.0, 6.0], "floor": [1.0, 2.0, 1.5]}
    return report.Case("a", "17 < 64", "ours", samples, 2 << 20, "floor", **fields)


def test_percentiles_are_those_of_numpy():
    random = np.random.default_rng(2)
    for length in (1, 2, 7, 60):
        samples = random.random(length).tolist()
        found = report.spread(samples)
        expected = np.percentile(samples, [50, 10, 90])
        assert np.allclose([found["median"], found["p10"], found["p90"]], expected)


def test_ratios_are_of_one_round():
    one = case()
    assert one.ratios("theirs") == [2, 3, 2] and one.ratio("theirs") == 2
    ways = {way["way"]: way for way in one.as_dict()["ways"]}
    assert ways["ours"]["share_of_floor"] == 0.5 and "times_ours" not in ways["ours"]
    assert ways["theirs"]["times_ours"]["median"] == 2
    ways = {way["way"]: way for way in case(base="floor").as_dict()["ways"]}
    assert ways["ours"]["adds_microseconds"]["median"] == 1.5 and "adds_microseconds" not in ways["floor"]


def test_bars():
    assert report.Bar("a", "", 1.5, least=1.5).met and not report.Bar("a", "", 1.49, least=1.5).met
    assert report.Bar("d", "", 25.0, most=25.0).met and not report.Bar("d", "", 25.1, most=25.0).met


def test_the_report_has_all_of_it():
    machine = dict.fromkeys(["date", "device", "driver", "driver_cuda", "torch", "python", "pagelift"], "1")
    bars = [report.Bar("a", "times", 1.4, least=1.5), report.Bar("d", "µs", 20.0, most=25.0)]
    cases = [case(skipped={"other": "no such call"}), case(base="floor")]
    results = {
        "machine": machine,
        "command": "bench",
        "exposed": 0,
        "bars": [bar.as_dict() for bar in bars],
        "cases": [one.as_dict() for one in cases],
    }
    assert json.loads(json.dumps(results)) == results
    text = report.markdown(results, ["bench.svg"])
    for words in ("1 of 2 bars met", "MISSED", "at most 25 µs", "Not tried: other (no such call).", "(2.00 MiB)", "bench.svg", "adds, µs"):
        assert words in text, words
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1, block


def test_the_picture_has_a_bar_for_each_way_to_scale():
    root = ElementTree.fromstring(picture.svg([case(), case()], "a & b"))
    bars = [node for node in root if node.tag.endswith("rect")][1:]
    assert len(bars) == 6
    widths = [float(bar.get("width")) for bar in bars[:3]]
    # Medians 3, 6 and 1.5.
    assert np.allclose(np.array(widths) / widths[1], [0.5, 1, 0.25], atol=1e-3)
    words = [node.text for node in root if node.tag.endswith("text")]
    assert "a & b" in words and "a  17 < 64" in words and "6.0 µs" in words


def test_beside_a_base_the_picture_has_what_each_way_adds():
    root = ElementTree.fromstring(picture.svg([case(base="floor")], "note"))
    bars = [node for node in root if node.tag.endswith("rect")][1:]
    widths = [float(bar.get("width")) for bar in bars]
    # Medians 1.5 and 4.5.
    assert len(widths) == 2 and np.isclose(widths[0] / widths[1], 1 / 3, atol=1e-3)
    words = [node.text for node in root if node.tag.endswith("text")]
    assert "a  17 < 64; what each adds to floor" in words and "4.5 µs" in words


@pytest.mark.parametrize("seed", range(20))
def test_merged_runs_are_the_slots_in_their_order(seed):
    random = np.random.default_rng(seed)
    pieces = [start + np.arange(random.integers(1, 20)) for start in random.permutation(40)[: random.integers(0, 8)] * 20]
    slots = np.concatenate([np.zeros(0, np.int64), *pieces, np.full(random.integers(0, 3), -1)])
    pages, firsts, lengths = runs(slots, 16)
    found = [page * 16 + first + n for page, first, length in zip(pages, firsts, lengths, strict=True) for n in range(length)]
    assert found == slots[slots >= 0].tolist()
    assert np.all(firsts + lengths <= 16)
    # No two runs could be one.
    ends = pages * 16 + firsts + lengths
    assert not np.any((ends[:-1] == pages[1:] * 16 + firsts[1:]) & (firsts[1:] != 0))


def test_all_figures_on_the_cpu(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs PyTorch")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(BENCHES / "bench.py"), "--cpu", "--out", str(tmp_path), "--json", str(tmp_path / "other.json")]
    # Each way of each figure compares what it has copied.
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    results = json.loads((tmp_path / "bench.json").read_text())
    assert {one["figure"] for one in results["cases"]} == set("abcd")
    assert {bar["figure"] for bar in results["bars"]} == set("abd")
    assert (tmp_path / "other.json").read_text() == (tmp_path / "bench.json").read_text()
    for one in results["cases"]:
        assert all(way["microseconds"]["median"] > 0 for way in one["ways"]) and len(one["ways"]) >= 2
    ElementTree.parse(tmp_path / "bench.svg")
    assert "bars met" in (tmp_path / "bench.md").read_text()
