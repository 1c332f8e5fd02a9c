"""What the paper of FP8-LM claims of training over ranks, asked of the runs."""

import dataclasses

from figures import difference, text_of


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


def claim_lines(found):
    """A line per claim and number of ranks; `found` is that of figures.read."""
    lines = ["| asked | ranks | " + " | ".join(found) + " |",
             "|---" * (2 + len(found)) + "|"]
    for claim in CLAIMS:
        asked = "near 0" if claim.is_same else "below 0"
        for ranks in (2, 4):
            cells = []
            for by_kind in found.values():
                runs = by_kind.get(f"ranks-{ranks}", {})
                pair = difference(runs.get(claim.recipe, {}), runs.get(claim.other, {}))
                cells.append(text_of(pair))
            lines.append(f"| {claim.text} ({asked}) | {ranks} | " + " | ".join(cells) + " |")
    return lines
