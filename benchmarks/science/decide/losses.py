"""LOSSES.csv of the comparison that decides: a line for each run."""

import csv
import hashlib
import sys

COLUMNS = ["stage", "model", "recipe", "recipe_hash", "run_file", "text", "lr", "seed", "val_loss",
           "val_loss_bf16", "seconds", "bytes_per_parameter", "machine"]


def hash_of_bytes(*parts):
    """Of files, each by itself.

    >>> hash_of_bytes(b"a", b"b") == hash_of_bytes(b"ab", b"")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]


def whole_lines(text):
    """`text` without a last line that a run which was killed has begun.

    >>> whole_lines("a\\nb\\nc")
    'a\\nb\\n'
    """
    return text[:text.rfind("\n") + 1]


def read_losses(path):
    """A dict of strings for each line; ends the program where one is no run's."""
    if not path.exists():
        return []
    lines = whole_lines(path.read_text(encoding="utf-8")).splitlines()
    rows = list(csv.DictReader(lines))
    for number, row in enumerate(rows, 2):
        if set(row) != set(COLUMNS) or None in row.values():
            sys.exit(f"{path}:{number}: not the columns {', '.join(COLUMNS)}")
    return rows


class Losses:
    """The file to append to, whole line by whole line."""

    def __init__(self, path):
        self.path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if not text:
            path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
        elif text != whole_lines(text):
            path.write_text(whole_lines(text), encoding="utf-8")

    def add(self, **row):
        """None is written as nothing: a loss of a run that diverged."""
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(row)
