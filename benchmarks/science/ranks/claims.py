"""What the paper of FP8-LM claims of training over ranks, asked of the runs, with verdicts."""

import dataclasses

from figures import difference, text_of

SAME = 0.01  # nats: "on par": an interval within this


@dataclasses.dataclass
class Claim:
    """`recipe` - `other` on as many ranks, as the paper has it below zero or near it."""
    text: str
    recipe: str
    other: str
    is_same: bool = False


CLAIMS = [
    Claim("FP8-LM loses nothing to BF16", "fp8-lm", "bf16", is_same=True),
    Claim("FP8-LM is on par with delayed scaling in its GEMMs", "fp8-lm", "fp8-lm-delayed",
          is_same=True),
    Claim("E4M3 gradients, added in E4M3 under auto-scaling, lose nothing", "wire-auto", "bf16",
          is_same=True),
    Claim("auto-scaling beats post-scaling", "wire-auto", "wire-post"),
    Claim("auto-scaling beats pre-scaling by 1/√N", "wire-auto", "wire-held"),
    Claim("(ours) exact sums beat the running sum in E4M3", "wire-exact", "wire-auto"),
    Claim("(ours) ... in FP8-LM as a whole", "fp8-lm-exact", "fp8-lm"),
    Claim("(ours) MXFP8 gradients lose nothing", "wire-mxfp8", "bf16", is_same=True),
]


def verdict_of(claim, found):
    if found is None or found.n < 2:
        return "–" if found is None else "one seed"
    low, high = found.mean - found.half, found.mean + found.half
    if claim.is_same:
        if max(abs(low), abs(high)) <= SAME:
            return "confirmed"
        return "contradicted" if low > SAME or high < -SAME else "not resolved"
    if high < 0:
        return "confirmed"
    return "contradicted" if low > 0 else "not resolved"


def claim_lines(found):
    """A line per claim and number of ranks; `found` is that of figures.read."""
    lines = ["| asked | ranks | " + " | ".join(f"{rate} | verdict" for rate in found) + " |",
             "|---" * (2 + 2 * len(found)) + "|"]
    for claim in CLAIMS:
        asked = f"within ±{SAME}" if claim.is_same else "below 0"
        for ranks in (2, 4):
            cells = []
            for by_kind in found.values():
                runs = by_kind.get(f"ranks-{ranks}", {})
                pair = difference(runs.get(claim.recipe, {}), runs.get(claim.other, {}))
                cells.append(f"{text_of(pair)} | {verdict_of(claim, pair)}")
            lines.append(f"| {claim.text} ({asked}) | {ranks} | " + " | ".join(cells) + " |")
    return lines
