"""Measured cases as a picture: bars of microseconds, a panel for each case. Where ways add to a base, that is drawn."""

from html import escape

WIDTH, LEFT, BAR = 900, 330, 16
OURS, THEIRS, FLOOR = "#0072b2", "#999999", "#d0d7de"


def svg(cases, note):
    """A picture of drawn cases (`report.Case`)."""
    parts, y = [], 6

    def say(x, y, words, style=""):
        parts.append(f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(words)}</text>')

    for case in cases:
        y += 32
        added = f"; what each adds to {case.base}" if case.base else ""
        say(20, y, f"{case.figure}  {case.title}{added}", 'font-weight="bold"')
        y += 10
        medians = {way: case.cost(way) for way in case.samples if way != case.base}
        most = max(medians.values())
        for way, median in medians.items():
            ours = way == case.ours or way.startswith("pagelift")
            colour = FLOOR if way == case.floor else OURS if ours else THEIRS
            # Beside a noisy base a way may seem to add less than nothing.
            width = (WIDTH - LEFT - 110) * max(median, 0) / most
            parts.append(f'<rect x="{LEFT}" y="{y:.0f}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>')
            say(LEFT - 8, y + 13, way, 'text-anchor="end"')
            say(LEFT + width + 6, y + 13, f"{median:,.1f} µs")
            y += BAR + 5
    y += 30
    say(20, y, note, 'font-size="11" fill="#555555"')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 16:.0f}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="12" fill="#222222">\n<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
    )
