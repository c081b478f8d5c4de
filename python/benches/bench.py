"""What pagelift gains inside PyTorch, and what it costs: all figures in one run.

    python bench.py                  # on a GPU; prints a table
    python bench.py --out FOLDER     # and writes bench.json, bench.md and bench.svg there
    python bench.py --cpu            # tiny, on the CPU: shows that it runs, and no more

a: a partly filled block of 61 layers into a page, by one launch and by a `copy_` a layer. b: a step's rows to the host pool, and what
connectors do. c: what lifting adds to a captured decode step. d: how long the host's calls take. Every way is checked to write the
right bytes before it is timed; ways take turns, and figures are medians.
"""

import argparse
import json
import platform
import shlex
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import torch

import calls
import mirror
import pagelift
import picture
import report
import step
import tails
from bed import Bed, Sizes
from machine import Gpu, Host

FIGURES = {"a": tails, "b": mirror, "c": step, "d": calls}


def commit():
    """What the sources are, where git knows."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def run(machine, sizes, figures):
    """Measures figures; returns their cases and bars."""
    cases, bars = [], []
    bed = Bed(machine, sizes)
    for figure in figures:
        print(f"figure {figure} …", file=sys.stderr, flush=True)
        measured, judged = FIGURES[figure].measure(bed)
        cases += measured
        bars += judged
    return cases, bars


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", action="store_true", help="tiny, on the CPU; its times mean nothing")
    parser.add_argument("--quick", action="store_true", help="few repeats")
    parser.add_argument("--only", default="abcd", metavar="FIGURES", help="some figures, such as `ad`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write bench.json, bench.md and bench.svg there")
    parser.add_argument("--commit", help="the commit that was built, where git does not know")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(FIGURES):
        parser.error(f"no figure {', '.join(sorted(unknown))}: there are {', '.join(FIGURES)}")
    if not arguments.cpu and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU; `--cpu` shows that it runs")
    machine = Host() if arguments.cpu else Gpu()
    sizes = Sizes.tiny() if arguments.cpu else Sizes.quick() if arguments.quick else Sizes()
    about = {
        **machine.describe(),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "pagelift": pagelift.__version__,
        "commit": arguments.commit or commit(),
    }
    cases, bars = run(machine, sizes, arguments.only)
    results = {
        "machine": about,
        # Where a folder lay on the machine says nothing elsewhere.
        "command": shlex.join(["python", *(Path(word).name if word.startswith("/") else word for word in sys.argv)]),
        "exposed": machine.exposed,
        "bars": [bar.as_dict() for bar in bars],
        "cases": [case.as_dict() for case in cases],
    }
    text = json.dumps(results, indent=2, ensure_ascii=False) + "\n"
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(text, encoding="utf-8")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        drawn = [case for case in cases if case.drawn]
        files = {
            "bench.json": text,
            "bench.md": report.markdown(results, ["bench.svg"]),
            "bench.svg": picture.svg(drawn, report.line(about)),
        }
        for name, content in files.items():
            (arguments.out / name).write_text(content, encoding="utf-8")
    print(report.markdown(results))


if __name__ == "__main__":
    main()
