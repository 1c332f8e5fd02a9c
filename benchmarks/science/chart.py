"""Pictures of the comparison, drawn as SVG by `narrowgauge study --draw`: lines with bands, points
with intervals."""

import json
import math
import os
import pathlib
import subprocess
import tempfile

PROGRAM = os.path.abspath(
    os.environ.get("NARROWGAUGE", pathlib.Path(__file__).resolve().parents[2] / "narrowgauge"))


def drawn(**chart):
    """SVG of a chart by the names of src/chart/chart_json.h."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(chart, file)
        file.flush()
        return subprocess.run([PROGRAM, "study", "--draw", file.name], check=True,
                              stdout=subprocess.PIPE, text=True).stdout


def known(number):
    return None if math.isnan(number) else number


def curves(title, series, y_name):
    """series: [(name, steps, low, middle, high)], at most eight; the steps on a log axis."""
    x = sorted({step for _, steps, *_ in series for step in steps})

    def at_all(steps, values):
        found = dict(zip(steps, values))
        return [found.get(step) for step in x]

    return drawn(kind="lines", caption=title, x_label="step", y_label=y_name, x=x, log_x=True,
                 from_zero=False,
                 series=[{"name": name, "y": at_all(steps, middle), "low": at_all(steps, low),
                          "high": at_all(steps, high)}
                         for name, steps, low, middle, high in series])


def intervals(title, rows, y_name, equal):
    """rows: [(name, mean, half, kind)], at most eight kinds; a strip marks what counts as equal."""
    def of(kind, numbers):
        return [known(number) if kind == own else None
                for number, (*_, own) in zip(numbers, rows)]

    return drawn(kind="points", caption=title, y_label=y_name, categories=[row[0] for row in rows],
                 from_zero=False, strip=equal,
                 series=[{"name": kind, "y": of(kind, [mean for _, mean, *_ in rows]),
                          "error": of(kind, [half for _, _, half, _ in rows])}
                         for kind in dict.fromkeys(row[3] for row in rows)])
