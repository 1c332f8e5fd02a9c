"""A scale from the largest values of earlier steps. [formats §5]"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .bits import LARGEST
from .form import OperandForm
from .scales import encode_scale


@dataclass(frozen=True)
class Delayed:
    """encode_scale (1,): what this step scales by. history (amax_history,): place 0 gathers this
    step's largest value, the rest are earlier steps, oldest first."""

    encode_scale: Tensor
    history: Tensor

    @staticmethod
    def start(form: OperandForm, device: torch.device) -> Delayed:
        history = torch.zeros(form.amax_history, device=device)
        return Delayed(torch.ones(1, device=device), history)

    def see(self, amax: Tensor) -> None:
        """A tensor of this step has that largest value."""
        self.history[0] = torch.maximum(self.history[0], amax)

    def roll(self, form: OperandForm) -> None:
        """At the end of a step. A step without values, or with such as are not finite, leaves no
        trace."""
        history = self.history
        newest = history[0]
        counts = (newest > 0) & (newest <= LARGEST)
        amax = history.amax() if form.amax_compute == "max" else newest
        fit = form.fits[0] * 2.0**-form.margin
        scale = encode_scale(amax.reshape(1), fit, form.scale == "pow2")
        self.encode_scale.copy_(torch.where(counts, scale, self.encode_scale))
        if form.amax_history > 1:
            rolled = torch.cat((history[:1], history[2:], history[:1]))
            history.copy_(torch.where(counts, rolled, history))
        history[0] = 0.0
