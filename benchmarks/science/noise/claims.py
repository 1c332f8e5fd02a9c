"""What the paper of GaussWS claims, asked of the runs: differences paired by seed."""

import dataclasses

from paired import mean_of, paired

ALL, DIFFQ, OD, OUT = (f"{name}-paced" for name in (
    "gaussws-all", "diffq", "gaussws-od", "gaussws-out"))
MINI_ALL, MINI_DIFFQ = f"adam-mini-{ALL}", f"adam-mini-{DIFFQ}"
VALIDATION, MAXIMUM = 0, 2  # of table's MEASURES


@dataclasses.dataclass
class Claim:
    """`recipe` - `other`, as the paper has it below zero or near it."""
    text: str
    model: str
    recipe: str
    other: str
    is_same: bool = False
    measure: int = VALIDATION


CLAIMS = [
    Claim("GaussWS[all] costs little loss", "gpt2", ALL, "bf16", is_same=True),
    Claim("GaussWS[all] outperforms DiffQ", "gpt2", ALL, DIFFQ),
    Claim("GaussWS[out] stays close to BF16", "gpt2", OUT, "bf16", is_same=True),
    Claim("GaussWS[od] is better than [all]", "gpt2", OD, ALL),
    Claim("GaussWS[od] is better than BF16", "gpt2", OD, "bf16"),
    Claim("Adam-mini improves DiffQ", "gpt2", MINI_DIFFQ, DIFFQ),
    Claim("GaussWS[all] costs little loss under Adam-mini", "gpt2", MINI_ALL, "adam-mini",
          is_same=True),
    Claim("GaussWS[all] improves on BF16", "llama", ALL, "bf16"),
    Claim("... in the worst case too", "llama", ALL, "bf16", measure=MAXIMUM),
    Claim("DiffQ improves on BF16", "llama", DIFFQ, "bf16"),
    Claim("GaussWS[all] outperforms DiffQ", "llama", ALL, DIFFQ),
    Claim("GaussWS[all] is better under Adam-mini than under AdamW", "llama", MINI_ALL, ALL),
]


def claim_lines(figures):
    """A line per claim; `figures` is {(model, rate, recipe): {seed: by MEASURES}}."""
    rates = sorted({rate for _, rate, _ in figures}, key=lambda rate: -float(rate))
    lines = ["| the paper | model | " + " | ".join(rates) + " |",
             "|---" * (2 + len(rates)) + "|"]
    for claim in CLAIMS:
        cells = []
        for rate in rates:
            own = figures.get((claim.model, rate, claim.recipe), {})
            other = figures.get((claim.model, rate, claim.other), {})
            seeds = sorted(set(own) & set(other))
            if len(seeds) < 2:
                cells.append("–")
                continue
            found = paired([own[seed][claim.measure] - other[seed][claim.measure]
                            for seed in seeds])
            cells.append(f"{found.mean:+.4f} ± {found.half:.4f} ({found.n})")
        asked = "near 0" if claim.is_same else "below 0"
        lines.append(f"| {claim.text} ({asked}) | {claim.model} | " + " | ".join(cells) + " |")
    return lines


def bit_widths_of(run):
    """{layer: {"mean", "min", "max", "up_to_9", ...}} after the last step."""
    return [record["bit_widths"] for record in run.records if record.get("bit_widths")][-1]


def bits_lines(runs):
    """Fig. 5: b_t of the parts of all blocks; `runs` is {(model, rate): [Run]}."""
    lines = ["| model | rate | part | b_t, mean of blocks | least | most | up to 5 | up to 9 |",
             "|---" * 8 + "|"]
    for (model, rate), of_model in runs.items():
        parts = {}
        for run in of_model:
            for layer, figures in bit_widths_of(run).items():
                parts.setdefault(layer.split(".", 2)[2], []).append(figures)
        for part, figures in parts.items():
            mean, up_to_5, up_to_9 = (mean_of([f[key] for f in figures])
                                      for key in ("mean", "up_to_5", "up_to_9"))
            least, most = min(f["min"] for f in figures), max(f["max"] for f in figures)
            lines.append(f"| {model} | {rate} | `{part}` | {mean:.3f} | {least:.3f} | {most:.3f} | "
                         f"{100 * up_to_5:.0f} % | {100 * up_to_9:.0f} % |")
    return lines
