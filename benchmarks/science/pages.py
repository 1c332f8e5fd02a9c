"""Result pages: losses of runs in, tables between marks of a Markdown file and CSV out."""

import csv
import json


def losses_of(folder):
    """{recipe: {seed: loss in FP32}}, runs that evaluate-fp32 has evaluated only."""
    found = {}
    for file in sorted(folder.glob("*/eval-fp32.json")):
        recipe, seed = file.parent.name.rsplit("-seed", 1)
        found.setdefault(recipe, {})[int(seed)] = json.loads(file.read_text())["loss"]
    return found


def put(text, mark, lines):
    """`text` with `lines` between <!-- mark --> and the next <!-- end -->."""
    before, rest = text.split(f"<!-- {mark} -->\n")
    end = rest.index("<!-- end -->")
    return f"{before}<!-- {mark} -->\n" + "\n".join(lines) + "\n" + rest[end:]


def write_csv(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
