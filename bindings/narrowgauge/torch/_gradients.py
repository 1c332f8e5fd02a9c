"""Gradients between ranks of DistributedDataParallel in a recipe's numbers."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.utils.dlpack
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from .. import _core
from .._arguments import refusing, whole
from .._errors import ArgumentError, Error
from ._layers import Linear
from ._names import block_of
from ._recipe import AnyRecipe, core_recipe

#: What checkpoints call the parts of a weight's auto scale.
_SCALE, _GOOD_STEPS = "gradient_scale.float32", "gradient_good_steps.float32"


def is_narrow(layer: Linear) -> bool:
    """Whether gradients of its weight go as gradient.communicate says; all others go in FP32."""
    return block_of(layer.ng_state.name) >= 0


def begin(layer: Linear, has_auto_scales: bool) -> None:
    """Gives a layer the place of its weight's auto scale, where it has one."""
    scale = torch.zeros(3) if has_auto_scales and is_narrow(layer) else None
    layer.register_buffer("ng_gradient_scale", scale)


class GradientHook:
    """Encodes, exchanges and sums gradients as `narrowgauge reduce` does: a communication hook.

    The scales of a recipe with gradient.auto_scale lie in buffers of layers, `ng_gradient_scale`:
    the model's state_dict has them. state_dict, load_state_dict: those, and the hook's step.
    save_checkpoint and load_checkpoint take the hook for the same.
    """

    def __init__(
        self, ddp: DistributedDataParallel, recipe: _core.Recipe, seed: int, step: int
    ) -> None:
        for name, parameter in ddp.module.named_parameters():
            if parameter.device.type not in ("cpu", "cuda"):
                problem = f"is on {parameter.device}"
                raise Error(problem, "a model on the CPU, or on CUDA devices", place=name)
        self._group: Any = _of_hosts(ddp.process_group)
        self._step, self._seen = step, 0
        self._rank = dist.get_rank(self._group)
        model = ddp.module
        layers = [m for m in model.modules() if isinstance(m, Linear) and is_narrow(m)]
        self._narrow = {id(layer.weight): layer.ng_state for layer in layers}
        self._layers = {layer.ng_state.ids.weight: layer for layer in layers}
        #: ids of draws by what the trainer calls a weight
        self._names = {f"{of.name}.weight": of.ids.weight for of in self._narrow.values()}
        self._parameters = sum(p.requires_grad for p in model.parameters())
        self._reducer = _core.GradientReducer(
            recipe, seed, self._rank, dist.get_world_size(self._group),
            list(self._names.values()), self._exchange,
        )  # fmt: skip
        self._shown: dict[int, list[float]] = {}
        for tensor in self._reducer.scales:
            if self._layers[tensor].ng_gradient_scale is None:  # converted in another recipe
                begin(self._layers[tensor], True)
        self._take_scales()
        self._show_scales()

    def reduce_bucket(self, bucket: Any) -> torch.futures.Future[Tensor]:
        """All gradients of a dist.GradBucket, in place."""
        if self._seen == 0:
            self._take_scales()
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            self._reduce(parameter, gradient)
            self._seen += 1
        if self._seen == self._parameters:
            self._seen, self._step = 0, self._step + 1
            self._show_scales()
        whole = bucket.buffer()
        devices = [whole.device] if whole.device.type == "cuda" else None
        done: torch.futures.Future[Tensor] = torch.futures.Future(devices=devices)
        done.set_result(whole)
        return done

    def _take_scales(self) -> None:
        """What was loaded into the layers' buffers counts; zeros say that nothing was."""
        scales = {tensor: (k, good) for tensor, (_, k, good) in self._reducer.scales.items()}
        is_changed = False
        for tensor in scales:
            said = self._buffer(tensor).tolist()
            if said[0] > 0 and said != self._shown.get(tensor):
                scales[tensor], is_changed = (said[1], said[2]), True
        if is_changed:
            self._reducer.set_scales(scales)

    def _show_scales(self) -> None:
        """The buffers say what the next step has."""
        for tensor, scale in self._reducer.scales.items():
            self._buffer(tensor).copy_(torch.tensor(scale))
            self._shown[tensor] = self._buffer(tensor).tolist()

    def _buffer(self, tensor: int) -> Tensor:
        buffer = self._layers[tensor].ng_gradient_scale
        assert buffer is not None
        return buffer

    def _reduce(self, parameter: Tensor, gradient: Tensor) -> None:
        layer = self._narrow.get(id(parameter))
        whole = gradient.detach()
        whole = whole.t() if layer is not None and layer.turned else whole
        rows = whole.reshape(whole.shape[0] if whole.dim() > 1 else 1, -1)
        values = rows.to("cpu", torch.float32).contiguous()
        tensor = None if layer is None else layer.ids.weight
        self._reducer.reduce(values, tensor, self._step, self._rank)
        if values.data_ptr() != gradient.data_ptr():  # a card's goes back behind what uses it
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
        self._take_scales()
        scales = {tensor: (k, good) for tensor, (_, k, good) in self._reducer.scales.items()}
        return {"step": self._step, "scales": scales}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises Error for the state of another model or recipe."""
        with refusing("state", "what state_dict() gave, of the same model and recipe"):
            step, scales = state["step"], state["scales"]
            self._reducer.set_scales({tensor: (k, good) for tensor, (k, good) in scales.items()})
        self._step = whole(step, "step", 0, (1 << 32) - 1)
        self._show_scales()

    def rows(self) -> dict[tuple[str, str], Tensor]:
        """What checkpoints have of the auto scales, by what the trainer calls a weight and that."""
        rows = {}
        self._take_scales()
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


def _of_hosts(group: Any) -> Any:
    """One of the same ranks that carries the hosts' memory, where sums are made, as NCCL's does
    not."""
    if "nccl" not in dist.get_backend(group):
        return group
    return dist.new_group(dist.get_process_group_ranks(group), backend="gloo")


def _bytes(message: Any) -> Tensor:
    return torch.utils.dlpack.from_dlpack(message)


def gradient_hook(
    ddp: DistributedDataParallel, recipe: AnyRecipe, *, seed: int = 1, step: int = 0
) -> GradientHook:
    """Gradients of a DistributedDataParallel model go as the recipe's `gradient` table says from
    now on: those of the weights of converted layers in blocks in its numbers, what else there is in
    FP32. Every rank ends in the same mean, to the bit, whatever carries the messages.

    ddp: on the CPU over gloo, or on CUDA devices, whose gradients are summed at the hosts.
    seed, step: of stochastic rounding; the step goes on with each backward pass whose gradients are
        exchanged.
    """
    if not isinstance(ddp, DistributedDataParallel):
        raise ArgumentError(
            f"{type(ddp).__name__} is no DistributedDataParallel", "DDP(model)", key="ddp"
        )
    seed, step = whole(seed, "seed", 0, (1 << 64) - 1), whole(step, "step", 0, (1 << 32) - 1)
    hook = GradientHook(ddp, core_recipe(recipe), seed, step)

    def narrowgauge_hook(state, bucket):  # type: ignore[no-untyped-def]  # torch reads annotations
        return hook.reduce_bucket(bucket)

    ddp.register_comm_hook(None, narrowgauge_hook)
    return hook
