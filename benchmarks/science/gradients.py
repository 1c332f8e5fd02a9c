"""gradients.py STUDY RESULTS: the study of a run's gradients as tables of markdown, with its
pictures."""

import json
import pathlib
import re
import shutil
import sys

MEASURES = [("projection", "projection", "{:.4f}"), ("cosine", "cosine", "{:.4f}"),
            ("sqnr", "SQNR of one draw, dB", "{:.1f}"),
            ("sqnr_of_mean", "SQNR of the mean, dB", "{:.1f}"),
            ("bias", "relative bias", "{:.3f}"), ("loss", "loss less FP32's", "{:+.4f}")]
PICTURES = ["gradients-projection.svg", "gradients-sqnr.svg"]


def records_of(tables, name):
    """{(row, column): record} of a table; rows and columns in order."""
    table = next(table for table in tables if table["table"] == name)
    records = {(record["row"], record["column"]): record for record in table["values"]}
    rows = list(dict.fromkeys(row for row, _ in records))
    return records, rows, list(dict.fromkeys(column for _, column in records))


def cell(record, text):
    if record is None or record["value"] is None:
        return ""
    error = record.get("standard_error")
    spread = "" if error is None or error < 5e-5 else f" ± {error:.4f}"
    shown = text.format(record["value"])
    return (shown if float(shown) != 0 else shown.lstrip("-+")) + spread


def markdown(heading, rows):
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def step_table(tables, step):
    _, recipes, _ = records_of(tables, "projection")
    columns = [(records_of(tables, name)[0], text) for name, _, text in MEASURES]
    return markdown(["recipe"] + [title for _, title, _ in MEASURES],
                    [[f"`{recipe}`"] + [cell(records.get((recipe, step)), text)
                                        for records, text in columns] for recipe in recipes])


def kind_table(tables, step):
    records, rows, _ = records_of(tables, "projection_by_kind")
    recipes = list(dict.fromkeys(row.split(": ")[0] for row in rows))
    kinds = list(dict.fromkeys(row.split(": ")[1] for row in rows))
    return markdown(["recipe"] + kinds,
                    [[f"`{recipe}`"] + [f"{records[f'{recipe}: {kind}', step]['value']:.3f}"
                                        for kind in kinds] for recipe in recipes])


def shown_command(command):
    """Without the folders of the machine it ran on."""
    return re.sub(r"\S*/gradients(/\S*)?", r"OUT/gradients\1", command)


def write_gradients(study, results):
    """`study`: the folder of `narrowgauge study gradients`."""
    report = json.loads((study / "gradients.json").read_text())
    section = report["sections"][0]
    tables = section["tables"]
    _, _, steps = records_of(tables, "projection")
    page = [f"# {report['title']}\n"] + [text + "\n" for text in section["text"]]
    pictures = re.findall(r"<svg.*?</svg>\n", (study / "index.html").read_text(), re.DOTALL)
    for name, svg in zip(PICTURES, pictures):
        white = svg.replace("</title>\n", '</title>\n<rect width="100%" height="100%" '
                            'fill="#fff"/>\n', 1)
        (results / name).write_text(white)
        page.append(f"![{name[:-4]}]({name})\n")
    page.append("Projection is <g, g₀>/<g₀, g₀>, g₀ the FP32 gradient, ± standard error; SQNR is "
                "-20 log10 of ‖g - g₀‖/‖g₀‖; bias is that error of the expected gradient, "
                "estimated from the mean of all draws with its own noise taken off. One batch of "
                "one run: ± is over draws, not over batches, runs or models.\n")
    for step in steps:
        page += [f"## {step.capitalize()}\n", step_table(tables, step)]
    page += [f"## Projection by kind of layer, {steps[-1]}\n", kind_table(tables, steps[-1]),
             "## Commands\n",
             "`benchmarks/science/run` trains the run and makes the study, "
             "`benchmarks/science/tables OUT docs/results` this page; all numbers, with the other "
             "figures by kind of layer, are in [gradients.csv](gradients.csv).\n",
             f"```sh\n{shown_command(report['command'])}\n```\n"]
    (results / "gradients.md").write_text("\n".join(page))
    shutil.copyfile(study / "gradients.csv", results / "gradients.csv")


if __name__ == "__main__":
    write_gradients(*map(pathlib.Path, sys.argv[1:]))
