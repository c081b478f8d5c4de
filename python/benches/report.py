"""What was measured: medians and ratios, bars, a table and JSON. Needs nothing but Python."""

import statistics
from dataclasses import dataclass, field


def percentile(samples, part):
    """The sample below which `part` of all are, between two where none is there."""
    ordered = sorted(samples)
    at = part * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def spread(samples):
    """The median, and what nine of ten are above and below."""
    return {"median": statistics.median(samples), "p10": percentile(samples, 0.1), "p90": percentile(samples, 0.9)}


@dataclass
class Case:
    """One case of a figure: the microseconds of each way, round by round."""

    figure: str
    title: str
    # The way that others are compared with, which is pagelift's.
    ours: str
    samples: dict
    bytes: int
    # The way that only copies as many bytes, the least that any can take.
    floor: str | None = None
    fields: dict = field(default_factory=dict)
    drawn: bool = False
    # What ways add time to, where they do.
    base: str | None = None
    skipped: dict = field(default_factory=dict)

    def summary(self, way):
        return spread(self.samples[way])

    def ratios(self, way):
        """How many times as long as ours a way took, in each round."""
        return [other / own for other, own in zip(self.samples[way], self.samples[self.ours], strict=True)]

    def ratio(self, way):
        return statistics.median(self.ratios(way))

    def added(self, way):
        """What a way adds to the base, in each round."""
        return [time - base for time, base in zip(self.samples[way], self.samples[self.base], strict=True)]

    def cost(self, way):
        """The median of what a way adds to the base, or takes where there is none; so of the floor, which is no step."""
        times = self.added(way) if self.base and way != self.floor else self.samples[way]
        return statistics.median(times)

    def as_dict(self):
        ways = []
        floor = self.summary(self.floor)["median"] if self.floor else None
        for name, samples in self.samples.items():
            way = {"way": name, "microseconds": spread(samples), "samples": len(samples)}
            if name != self.ours and not self.base:
                way["times_ours"] = spread(self.ratios(name))
            if floor and not self.base:
                way["share_of_floor"] = floor / way["microseconds"]["median"]
            if self.base and name not in (self.base, self.floor):
                way["adds_microseconds"] = spread(self.added(name))
            ways.append(way)
        skipped = [{"way": name, "why": why} for name, why in self.skipped.items()]
        return {"figure": self.figure, "case": self.title, "bytes": self.bytes, **self.fields, "ways": ways, "skipped": skipped}


@dataclass
class Bar:
    """What a figure must show: at least, or at most."""

    figure: str
    words: str
    found: float
    least: float | None = None
    most: float | None = None

    @property
    def met(self):
        return self.found >= self.least if self.most is None else self.found <= self.most

    def as_dict(self):
        needed = {"at_least": self.least} if self.most is None else {"at_most": self.most}
        return {"figure": self.figure, "bar": self.words, **needed, "found": self.found, "met": self.met}


def table(rows):
    """Rows of text as a table of Markdown, the first one its head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def line(machine):
    """Where and when it was measured."""
    commit = f", commit {machine['commit']}" if machine.get("commit") else ""
    return (
        f"{machine['date']}, {machine['device']}, driver {machine['driver']} (CUDA {machine['driver_cuda']}), PyTorch {machine['torch']}, "
        f"Python {machine['python']}, pagelift {machine['pagelift']}{commit}"
    )


def markdown(results, pictures=()):
    """All of it as text."""
    bars = results["bars"]
    met = sum(bar["met"] for bar in bars)
    parts = ["# Bench of the Python package", f"{line(results['machine'])}. Written by `{results['command']}`."]
    parts += [f"![{picture}]({picture})" for picture in pictures]
    parts.append(f"## {met} of {len(bars)} bars met")
    rows = [["figure", "must be", "was", ""]]
    for bar in bars:
        needed = f"at least {bar['at_least']:g}" if "at_least" in bar else f"at most {bar['at_most']:g}"
        rows.append([bar["figure"], f"{needed} {bar['bar']}", f"{bar['found']:.2f}", "met" if bar["met"] else "MISSED"])
    parts.append(table(rows))
    if results["exposed"]:
        parts.append(f"In {results['exposed']} samples the GPU had to wait for the host.")
    for case in results["cases"]:
        parts.append(f"## {case['figure']}  {case['case']} ({case['bytes'] / 2**20:.2f} MiB)")
        added = any("adds_microseconds" in way for way in case["ways"])
        rows = [["way", "median, µs", "10 % to 90 %", *(["adds, µs"] if added else ["of the floor", "times ours"]), "10 % to 90 %"]]
        for way in case["ways"]:
            time, ratio = way["microseconds"], way.get("times_ours")
            cells = [way["way"], f"{time['median']:.1f}", f"{time['p10']:.1f} to {time['p90']:.1f}"]
            if added:
                more = way.get("adds_microseconds")
                cells += [f"{more['median']:.1f}", f"{more['p10']:.1f} to {more['p90']:.1f}"] if more else ["", ""]
            else:
                cells.append(f"{way['share_of_floor']:.3f}" if "share_of_floor" in way else "")
                cells += [f"{ratio['median']:.2f}", f"{ratio['p10']:.2f} to {ratio['p90']:.2f}"] if ratio else ["", ""]
            rows.append(cells)
        parts.append(table(rows))
        parts += [f"Not tried: {one['way']} ({one['why']})." for one in case["skipped"]]
    return "\n\n".join(parts) + "\n"
