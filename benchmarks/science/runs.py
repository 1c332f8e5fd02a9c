"""What `narrowgauge compare` leaves in a folder, read even where runs are missing or unfinished."""

import dataclasses
import functools
import json
import pathlib
import re
import tomllib

# Keys of run.toml that runs of one comparison may differ in.
OWN_KEYS = {"recipe", "seed", "threads"}


@dataclasses.dataclass
class Run:
    recipe: str
    seed: int
    folder: pathlib.Path
    result: dict  # as result.json has it

    @functools.cached_property
    def settings(self):
        """run.toml, flat: {"train.steps": 800, ...}."""
        return flat(tomllib.loads((self.folder / "run.toml").read_text()))

    @functools.cached_property
    def records(self):
        """Lines of metrics.jsonl."""
        text = (self.folder / "metrics.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    @functools.cached_property
    def losses(self):
        """Training loss of each step; a step that was done again after a resume counts once."""
        by_step = {}
        for record in self.records:
            if "loss" in record:
                by_step[record["step"]] = record["loss"]
        return [by_step[step] for step in sorted(by_step)]


def flat(table, prefix=""):
    out = {}
    for key, value in table.items():
        if isinstance(value, dict):
            out |= flat(value, f"{prefix}{key}.")
        else:
            out[prefix + key] = value
    return out


@dataclasses.dataclass
class Comparison:
    runs: dict  # recipe: {seed: Run}
    left_out: list  # sentences: what is not there yet, or does not fit

    def seeds(self, *recipes):
        """Those that all of these recipes have finished."""
        return sorted(set.intersection(*(set(self.runs[recipe]) for recipe in recipes)))


def shared_settings(run):
    return {key: value for key, value in run.settings.items()
            if key.rsplit(".", 1)[-1] not in OWN_KEYS}


def read_comparison(folder):
    """Finished runs below `folder`, recipes in the order of their names."""
    found = Comparison({}, [])
    expected = None
    names = sorted(pathlib.Path(folder).glob("*-seed*")) if folder.is_dir() else []
    for path in names:
        match = re.fullmatch(r"(.+)-seed(\d+)", path.name)
        file = path / "result.json"
        if match is None:
            continue
        result = json.loads(file.read_text())["result"] if file.is_file() else None
        if result is None:
            found.left_out.append(f"{path.name} is not finished")
            continue
        if result["val_loss"] is None:
            found.left_out.append(f"{path.name} diverged")
            continue
        run = Run(match[1], int(match[2]), path, result)
        expected = expected or shared_settings(run)
        if shared_settings(run) != expected:
            found.left_out.append(f"{path.name} has other settings than the runs before it")
            continue
        found.runs.setdefault(run.recipe, {})[run.seed] = run
    return found
