"""What the runs of a comparison say about each recipe: paired statistics, and sentences."""

import dataclasses
import math

from paired import deviation_of, holm, mean_of, paired

BASELINE = "bf16"
EQUAL = 0.005  # nats: an interval within this is called equal
ALPHA = 0.05

# What is changed, and from what: one step of a recipe's design each.
CONTRASTS = [
    ("mxfp4-nr-rht", "mxfp4-nr", "Hadamard transform, nearest rounding"),
    ("mxfp4-sr", "mxfp4-nr", "stochastic instead of nearest"),
    ("mxfp4-sr-rht", "mxfp4-sr", "Hadamard transform, stochastic rounding"),
    ("mxfp4-sr-rht-g32", "mxfp4-sr-rht", "transform of 32 instead of 64"),
    ("mxfp4-sr-rht-g128", "mxfp4-sr-rht", "transform of 128 instead of 64"),
    ("mxfp4-sr-rceil", "mxfp4-sr", "scales rounded up instead of prescaling"),
    ("mxfp4-all", "mxfp4-sr-rht", "forward GEMM in MXFP4 too"),
    ("nvfp4-no-sr", "nvfp4", "without stochastic rounding"),
    ("nvfp4-no-rht", "nvfp4", "without the Hadamard transform"),
    ("nvfp4-1d", "nvfp4", "weights in blocks of 16 instead of 16 x 16"),
    ("nvfp4-sr-forward", "nvfp4", "stochastic rounding forward too"),
    ("nvfp4-all", "nvfp4", "no block in BF16"),
    ("nvfp4-late-bf16", "nvfp4", "BF16 at the end of training"),
    ("bf16", "fp32", "BF16 instead of FP32"),
]


@dataclasses.dataclass
class Row:
    recipe: str
    against: str
    seeds: list
    loss: float
    loss_sd: float
    bits: float
    speed: float  # tokens/s on one thread
    operands: float  # bytes per parameter
    planned: float  # all memory, bytes per parameter
    difference: object  # Paired
    p: float  # Holm-corrected; NaN: not tested
    verdict: str


def verdict_of(difference, p):
    if difference.n < 2:
        return "one seed"
    if abs(difference.mean) + difference.half <= EQUAL:
        return "equal"
    if p < ALPHA:
        return "worse" if difference.mean > 0 else "better"
    return "not resolved"


def speed_of(comparison, recipe, speeds):
    """Measured apart where `speeds` has it; else that of the fastest seed."""
    return speeds.get(recipe) or max(comparison.values(recipe, "tokens_per_second"))


def row_of(comparison, recipe, against, speeds):
    """Without the verdict, which needs all rows."""
    seeds = comparison.seeds(recipe, against)
    own = comparison.values(recipe, "val_loss", seeds)
    other = comparison.values(against, "val_loss", seeds)
    all_losses = comparison.values(recipe, "val_loss")
    memory = comparison.first(recipe).result["bytes_per_parameter"]
    return Row(recipe, against, seeds, mean_of(all_losses), deviation_of(all_losses),
               mean_of(comparison.values(recipe, "bits_per_byte")),
               speed_of(comparison, recipe, speeds), memory["operands"], memory["total"],
               paired([a - b for a, b in zip(own, other)]), math.nan, "")


def judge(rows):
    for row, p in zip(rows, holm([row.difference.p for row in rows])):
        row.p, row.verdict = p, verdict_of(row.difference, p)
    return rows


def rows_against_baseline(comparison, speeds):
    """The baseline first, then the others by their loss."""
    others = [row_of(comparison, recipe, BASELINE, speeds) for recipe in comparison.runs
              if recipe != BASELINE and comparison.seeds(recipe, BASELINE)]
    others.sort(key=lambda row: row.difference.mean)
    baseline = row_of(comparison, BASELINE, BASELINE, speeds)
    baseline.verdict = "baseline"
    return [baseline] + judge(others)


def contrast_rows(comparison, speeds):
    there = [(recipe, against, what) for recipe, against, what in CONTRASTS
             if recipe in comparison.runs and against in comparison.runs
             and comparison.seeds(recipe, against)]
    rows = judge([row_of(comparison, recipe, against, speeds) for recipe, against, _ in there])
    return [(what, row) for (_, _, what), row in zip(there, rows)]


def front_of(rows):
    """Recipes that no other beats in both loss and speed, fastest first."""
    return [row.recipe for row in sorted(rows, key=lambda row: -row.speed)
            if not any(other.loss <= row.loss and other.speed >= row.speed and other is not row
                       for other in rows)]


def names_text(names):
    names = [f"`{name}`" for name in names]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def found_text(rows):
    """Sentences on who is equal, worse, better; and what these seeds cannot tell."""
    groups = {}
    for row in rows[1:]:
        groups.setdefault(row.verdict, []).append(row)
    said = []
    if "equal" in groups:
        said.append(f"The 95 % interval lies within ±{EQUAL} nats of `{BASELINE}` for "
                    f"{names_text([row.recipe for row in groups['equal']])}.")
    for verdict in ("worse", "better"):
        if verdict in groups:
            listed = ", ".join(f"`{row.recipe}` ({row.difference.mean:+.4f})"
                               for row in groups[verdict])
            said.append(f"Significantly {verdict} than `{BASELINE}`: {listed}.")
    if "not resolved" in groups:
        widest = max(row.difference.half for row in groups["not resolved"])
        narrowest = min(row.difference.half for row in groups["not resolved"])
        said.append(
            f"Not resolved by these seeds, neither equal nor different: "
            f"{names_text([row.recipe for row in groups['not resolved']])}; their 95 % intervals "
            f"reach from ±{narrowest:.4f} to ±{widest:.4f}.")
    if "one seed" in groups:
        said.append(f"With one seed so far: "
                    f"{names_text([row.recipe for row in groups['one seed']])}.")
    return " ".join(said)


def floor_text(twin, screening):
    """How far FP32 is from FP32 when the initial weights differ by a millionth."""
    if "fp32" not in twin.runs or "fp32" not in screening.runs:
        return "The twin runs in FP32 are not there yet."
    seeds = sorted(set(twin.runs["fp32"]) & set(screening.runs["fp32"]))
    if not seeds:
        return "The twin runs in FP32 are not there yet."
    differences = [twin.runs["fp32"][seed].result["val_loss"]
                   - screening.runs["fp32"][seed].result["val_loss"] for seed in seeds]
    listed = ", ".join(f"{difference:+.4f}" for difference in differences)
    rms = math.sqrt(mean_of([difference ** 2 for difference in differences]))
    text = (f"Two FP32 runs whose initial weights differ by a millionth end {listed} nats apart "
            f"(seeds {', '.join(map(str, seeds))}; root mean square {rms:.4f}).")
    if rms == 0:
        return text
    return text + (" Training amplifies any difference, however small, to about this, and pairs of "
                   "recipes, which round and draw otherwise in every step, scatter more: no two "
                   "recipes can be told apart by one pair of runs that differs by less.")
