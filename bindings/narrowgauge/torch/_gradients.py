"""Gradients between ranks of DistributedDataParallel in a recipe's numbers."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.utils.dlpack
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from .. import _core
from .._errors import Error
from ._layers import Linear
from ._recipe import AnyRecipe, core_recipe

#: What checkpoints call the parts of a weight's auto scale.
_SCALE, _GOOD_STEPS = "gradient_scale.float32", "gradient_good_steps.float32"


class GradientHook:
    """Encodes, exchanges and sums gradients as `narrowgauge reduce` does: a communication hook.

    state_dict, load_state_dict: its step, and the scales of a recipe with gradient.auto_scale.
    save_checkpoint and load_checkpoint take the hook for the same.
    """

    def __init__(
        self, ddp: DistributedDataParallel, recipe: _core.Recipe, seed: int, step: int
    ) -> None:
        self._group: Any = ddp.process_group
        self._step, self._seen = step, 0
        self._rank = dist.get_rank(self._group)
        model = ddp.module
        self._narrow = {
            id(layer.weight): layer.ng_state
            for layer in model.modules()
            if isinstance(layer, Linear) and layer.ng_state.name.startswith("blocks.")
        }
        #: ids of draws by what the trainer calls a weight
        self._names = {f"{of.name}.weight": of.ids.weight for of in self._narrow.values()}
        self._parameters = sum(p.requires_grad for p in model.parameters())
        self._reducer = _core.GradientReducer(
            recipe, seed, self._rank, dist.get_world_size(self._group),
            list(self._names.values()), self._exchange,
        )  # fmt: skip

    def reduce_bucket(self, bucket: Any) -> torch.futures.Future[Tensor]:
        """All gradients of a dist.GradBucket, in place."""
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            self._reduce(parameter, gradient)
            self._seen += 1
        if self._seen == self._parameters:
            self._seen, self._step = 0, self._step + 1
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    def _reduce(self, parameter: Tensor, gradient: Tensor) -> None:
        layer = self._narrow.get(id(parameter))
        whole = gradient.detach()
        whole = whole.t() if layer is not None and layer.turned else whole
        rows = whole.reshape(whole.shape[0] if whole.dim() > 1 else 1, -1)
        values = rows.to(torch.float32).contiguous()
        tensor = None if layer is None else layer.ids.weight
        self._reducer.reduce(values, tensor, self._step, self._rank)
        if values.data_ptr() != gradient.data_ptr():
            whole.copy_(values.reshape(whole.shape))

    def _exchange(self, sends: list[tuple[int, Any]], receives: list[tuple[int, Any]]) -> None:
        """Messages of one exchange; those of a pair of ranks in their order."""
        work: list[Any] = [
            dist.irecv(_bytes(m), self._of(rank), self._group) for rank, m in receives
        ]
        work += [dist.isend(_bytes(m), self._of(rank), self._group) for rank, m in sends]
        for one in work:
            one.wait()

    def _of(self, rank: int) -> int:
        """What torch calls a rank of the group."""
        if not hasattr(dist, "get_global_rank"):
            return rank
        group: Any = self._group or dist.group.WORLD
        return dist.get_global_rank(group, rank)

    def state_dict(self) -> dict[str, Any]:
        """What load_state_dict takes, of any rank: all have the same."""
        scales = {tensor: (k, good) for tensor, (_, k, good) in self._reducer.scales.items()}
        return {"step": self._step, "scales": scales}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises Error for the state of another model or recipe."""
        self._reducer.set_scales(state["scales"])
        self._step = state["step"]

    def rows(self) -> dict[tuple[str, str], Tensor]:
        """What checkpoints have of the auto scales, by what the trainer calls a weight and that."""
        rows = {}
        scales = self._reducer.scales
        for name, tensor in self._names.items():
            if tensor in scales:
                mu, k, good = scales[tensor]
                rows[name, _SCALE] = torch.tensor((mu, k))
                if self._reducer.counts_good_steps:
                    rows[name, _GOOD_STEPS] = torch.tensor((good,))
        return rows

    def go_on(self, step: int, rows: dict[tuple[str, str], Tensor]) -> None:
        """From what `rows` gave."""
        scales = {}
        for name, tensor in self._names.items():
            if (scale := rows.get((name, _SCALE))) is not None:
                good = rows.get((name, _GOOD_STEPS))
                scales[tensor] = (float(scale[1]), 0.0 if good is None else float(good[0]))
        self.load_state_dict({"step": step, "scales": scales})


def _bytes(message: Any) -> Tensor:
    return torch.utils.dlpack.from_dlpack(message)


def gradient_hook(
    ddp: DistributedDataParallel, recipe: AnyRecipe, *, seed: int = 1, step: int = 0
) -> GradientHook:
    """Gradients of a DistributedDataParallel model go as the recipe's `gradient` table says from
    now on: those of the weights of converted layers in blocks in its numbers, what else there is in
    FP32. Every rank ends in the same mean, to the bit, whatever carries the messages.

    ddp: on the CPU, over gloo. seed, step: of stochastic rounding; the step goes on with each
        backward pass whose gradients are exchanged.
    """
    if not isinstance(ddp, DistributedDataParallel):
        raise Error(f"{type(ddp).__name__} is no DistributedDataParallel", "DDP(model)", key="ddp")
    hook = GradientHook(ddp, core_recipe(recipe), seed, step)

    def narrowgauge_hook(state, bucket):  # type: ignore[no-untyped-def]  # torch reads annotations
        return hook.reduce_bucket(bucket)

    ddp.register_comm_hook(None, narrowgauge_hook)
    return hook
