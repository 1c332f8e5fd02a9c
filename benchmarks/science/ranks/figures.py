"""Runs that benchmarks/science/ranks/run left, and what each of them says."""

import functools
import json
import pathlib
import re
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import runs  # noqa: E402: needs the path
from paired import mean_of, paired  # noqa: E402: needs the path
from states import File  # noqa: E402: needs the path

WINDOW = 1000  # of auto-scaling, the recipes' growth_interval
# Of GEMMs, by the names of metrics.jsonl; of weights nothing is lost.
OPERANDS = ["fprop.input", "dgrad.grad"]


class Run(runs.Run):
    """Loss in FP32 by evaluate-fp32, the rest by metrics.jsonl and the last checkpoint."""

    @functools.cached_property
    def loss(self):
        return json.loads((self.folder / "eval-fp32.json").read_text())["loss"]

    @functools.cached_property
    def own_loss(self):
        """By the recipe's own numbers."""
        return [record["val_loss"] for record in self.records if "val_loss" in record][-1]

    @functools.cached_property
    def steps(self):
        return [record for record in self.records if "loss" in record]

    @property
    def skipped(self):
        return sum(record.get("skipped", False) for record in self.steps)

    @functools.cached_property
    def sent(self):
        """{kind: bytes} of all ranks in a step, mean of all; empty for one rank."""
        found = [record["sent"] for record in self.steps if "sent" in record]
        return {kind: mean_of([sent[kind] for sent in found]) for kind in found[0]} if found else {}

    def lost_in(self, operand, what):
        """Mean share of values of an operand that are `what`: "saturated", "flushed"; None where
        they are not narrow. Steps with figures by layer are left out."""
        found = [record["operands"][operand][what] for record in self.steps
                 if operand in record.get("operands", {})]
        return mean_of(found) if found else None

    @functools.cached_property
    def scale_exponents(self):
        """log2 of mu of each matrix at the end; none without auto-scaling."""
        [state] = (self.folder / "checkpoints").glob("step-*/state.safetensors")
        file = File(state)
        return [file.codes(name)[1] / WINDOW for name in file.header
                if name.startswith("gradient_scale.")]


def read(out):
    """{rate: {"ranks-4": {recipe: {seed: Run}}}}, evaluated runs only."""
    found = {}
    for file in sorted(out.glob("1e-*/*/*-seed*/eval-fp32.json")):
        match = re.fullmatch(r"(.+)-seed(\d+)", file.parent.name)
        rate, kind = file.parts[-4:-2]
        by_recipe = found.setdefault(rate, {}).setdefault(kind, {})
        seed = int(match[2])
        by_recipe.setdefault(match[1], {})[seed] = Run(match[1], seed, file.parent, {})
    return dict(sorted(found.items(), key=lambda item: -float(item[0])))


def difference(own, other, value=lambda run: run.loss):
    """Paired, of a figure of {seed: Run}; None where no seed has both."""
    seeds = sorted(set(own) & set(other))
    return paired([value(own[seed]) - value(other[seed]) for seed in seeds]) if seeds else None


def text_of(pair):
    """Mean, interval where there are two seeds or more, their number."""
    if pair is None:
        return "–"
    spread = f" ± {pair.half:.4f}" if pair.n > 1 else ""
    return f"{pair.mean:+.4f}{spread} ({pair.n})"


def bits_of(value):
    return struct.pack("<d", value)


def same_losses(runs_of_one_seed):
    """Whether training and validation losses of all steps are the same bits; how many there are."""
    losses = [[bits_of(loss) for loss in [*run.losses, run.own_loss]] for run in runs_of_one_seed]
    return all(found == losses[0] for found in losses), len(losses[0])
