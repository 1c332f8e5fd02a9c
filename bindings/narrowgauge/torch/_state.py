"""What a converted layer knows beside its parameters: its name, its draws, its operands."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any, Callable

import torch
from torch import Tensor

from .. import _core
from .._devices import when as when_of
from .._errors import Error
from ._engine import Engine
from ._form import begin_scales, form_of, noise_of, roll_scales
from ._ids import Ids
from ._sight import fingerprint, sample, version

#: Passes of a step that a draw's key can tell apart, and uses of a layer in one.
PASSES, USES = 1 << 16, 1 << 8

_KEPT = ("engine", "module", "name", "ids", "outputs", "inputs", "has_bias", "turned")
_numbers = itertools.count()
_states: weakref.WeakValueDictionary[int, LayerState] = weakref.WeakValueDictionary()


def state_of(number: int) -> LayerState:
    """The layer that an operator's argument stands for."""
    return _states[int(number)]  # a symbol where torch before 2.7 compiles


class LayerState:
    """One converted layer.

    name: as recipes call it ("blocks.0.mlp.up"); module: as the model does.
    outputs, inputs: N, K. turned: the weight is (K, N), as that of transformers' Conv1D.
    """

    def __init__(
        self, engine: Engine, module: str, name: str, ids: Ids, outputs: int, inputs: int,
        has_bias: bool, turned: bool,
    ) -> None:  # fmt: skip
        self.engine, self.module, self.name, self.ids = engine, module, name, ids
        self.outputs, self.inputs, self.has_bias, self.turned = outputs, inputs, has_bias, turned
        self._begin()

    def _begin(self) -> None:
        self.number = next(_numbers)  #: of this process, what operators are given
        _states[self.number] = self
        self._micro = 0  # of the newest pass: pass + use * PASSES
        self.saved_bytes = 0  #: of the newest pass, as long as its graph lives: of x
        self.uses = 0  #: of the layer in a pass, as compiled torch operations count them
        self._device = torch.device("cpu")  # of the newest pass
        self._core: _core.Layer | None = None
        self._noise: _core.WeightNoise | None = None
        self._noise_run: _core.LayerRun | None = None
        self._noise_of: tuple[int, ...] = ()
        self._run: _core.LayerRun | None = None
        self._placed: Tensor | None = None
        self._weight: tuple[Any, ...] | None = None
        self._weight_of: Callable[[], Tensor | None] = lambda: None  # what had it
        self._turned: Tensor | None = None
        self._used: tuple[int, int, int] = (-1, -1, 0)  # step, pass, uses in it
        self._passes: OrderedDict[Any, list[int]] = OrderedDict()
        #: Its numbers for torch operations, in training and evaluation; None: none are needed.
        self.form, self.quiet_form = self._make_forms()
        self.noise_form = noise_of(self.noise())  #: None: its weight has no noise
        #: Whether the gradient of the input is made of the input, too.
        self.reads_input: bool = self.core().reads_input

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key in _KEPT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def refuse(self, problem: str, remedy: str) -> Error:
        """An error that names the layer."""
        return Error(problem, remedy, place=self.module, key=self.name)

    # The core ------------------------------------------------------------------------------------

    def core(self, device: torch.device | None = None) -> _core.Layer:
        """Where it computes on a device, made anew where that or threads change; None: where it did
        last."""
        self._device = self._device if device is None else device
        run = self.engine.run(self._device)
        if self._core is None or self._run is not run:
            ids = [self.ids.weight, self.ids.input, self.ids.output]
            self._run, self._placed, self._weight = run, None, None
            self._core = _core.Layer(
                run, self.engine.recipe, self.name, self.engine.depth, self.engine.phase,
                self.outputs, self.inputs, self.has_bias, ids,
            )  # fmt: skip
        return self._core

    def _make_forms(self) -> tuple[Any, Any]:
        """Before the first pass: compilers do not follow into the core."""
        if self.engine.kind == "kernels":
            return None, None
        form = form_of(self.core())
        return form, form.to_nearest()

    def next_use(self) -> int:
        """Its place among the uses of the layer in a pass, where compilers ask."""
        self.uses += 1
        return (self.uses - 1) % USES

    def noise(self, device: torch.device | None = None) -> _core.WeightNoise:
        """Noise on the weight by the kernels, as core(); a recipe may have none."""
        self._device = self._device if device is None else device
        run = self.engine.run(self._device)
        if self._noise is None or self._noise_run is not run:
            self._noise_run = run
            self._noise = _core.WeightNoise(
                run, self.engine.recipe, self.name, self.engine.depth, self.engine.phase,
                self.outputs, self.inputs, self.ids.weight,
            )  # fmt: skip
        return self._noise

    def says_noise_of(self, weight: Tensor, bits: Tensor) -> None:
        """Of what the weight of the next pass is made: it has no version of its own."""
        self._noise_of = (weight.data_ptr(), version(weight), version(bits))

    def place_scales(self, core: _core.Layer, scales: Tensor | None) -> None:
        """Delayed scales live in the module's buffer."""
        if scales is not None and (self._placed is None or self._placed is not scales):
            core.place_state(scales.detach())
            self._placed = scales

    def set_phase(self, scales: Tensor | None) -> None:
        """The engine has come to another phase of the recipe: delayed scales that are others now
        begin anew.
        """
        on_kernels = scales is None or self.engine.takes_kernels(scales.device)
        if self._core is not None or (scales is not None and on_kernels):
            core = self.core(scales.device if scales is not None and on_kernels else None)
            self.place_scales(core, scales if on_kernels else None)
            core.set_phase(self.engine.phase)
        self._weight = self._noise = None
        before = self.form
        self.form, self.quiet_form = self._make_forms()
        self.noise_form = noise_of(self.noise())
        self.reads_input = self.core().reads_input
        if scales is not None and not on_kernels:
            begin_scales(before, self.form, scales)

    def roll_scales(self, scales: Tensor | None) -> None:
        """At the end of a step: scales of what was seen in it."""
        if scales is None:
            return
        if self.engine.takes_kernels(scales.device):
            core = self.core(scales.device)
            self.place_scales(core, scales)
            core.roll_scales(when_of(scales.device, self.engine.step, 0, False))
        else:
            roll_scales(self.form, scales)

    @property
    def kept_bytes(self) -> int:
        """Of operands of the weight, kept from pass to pass of a step."""
        return self._core.kept_bytes if self._core is not None else 0

    def kept_size(self, rows: int) -> int:
        """Bytes of what the forward product read of so many rows, where backward reads that again;
        0: it reads the input itself. rows: a number, or what compilers have for one."""
        form = self.core().kept_form
        if not form:
            return 0
        _, bits, block, scales, others = form
        return (rows * bits + 7) // 8 + (rows + block - 1) // block * scales + others

    def kept_values(self, kept: Tensor, rows: int) -> Tensor:
        """What kept_size(rows) bytes stand for: x as the forward product read it, FP32."""
        core = self.core()
        values = torch.empty(rows, core.kept_form[0], device=kept.device)
        core.read_kept(when_of(kept.device, self.engine.step, 0, False), kept, values)
        return values

    # The weight ----------------------------------------------------------------------------------

    def weight_rows(self, weight: Tensor, is_kept: bool) -> Tensor:
        """The weight as (N, K), rows side by side; a turned one is copied when it has changed."""
        rows = weight.detach()
        if not self.turned:
            return rows if rows.stride(1) == 1 or rows.shape[1] == 1 else rows.contiguous()
        if self._turned is None or not is_kept:
            self._turned = rows.t().contiguous()
        return self._turned

    def is_kept(self, weight: Tensor, step: int, evaluates: bool) -> bool:
        """Whether operands made of the weight before are what would be made now. Nobody waits for
        values of another device."""
        values = sample(weight) if weight.device.type == "cpu" else 0
        now = (weight.data_ptr(), version(weight), -1 if evaluates else step, values,
               *self._noise_of)  # fmt: skip
        kept, self._weight = self._weight == now, now
        # Where that tensor is no more, another may lie at its address.
        before = self._weight_of()
        is_there = before is not None and before.data_ptr() == weight.data_ptr()
        if not is_there:
            self._weight_of = weakref.ref(weight)
        return kept and (is_there or len(self._noise_of) > 0)

    @property
    def micro(self) -> int:
        """Of the newest pass of this step; 0 before the first."""
        return self._micro if self._used[0] == self.engine.step else 0

    # Draws ---------------------------------------------------------------------------------------

    def next_micro(self, x: Tensor) -> int:
        """Of a forward pass that is done for the first time."""
        step, number = self.engine.clock.tolist()
        last_step, last_number, uses = self._used
        if last_step != step:
            self._passes.clear()
        uses = uses + 1 if (last_step, last_number) == (step, number) else 0
        if number >= PASSES or uses >= USES:
            raise self.refuse(
                f"{PASSES} passes without a step" if number >= PASSES else f"{USES} uses in a pass",
                "narrowgauge.torch.attach(model, optimizer), or step(model) after each update",
            )
        self._used = (step, number, uses)
        self._micro = max(number, 0) + uses * PASSES
        if self.engine.is_pass:
            self._passes.setdefault(fingerprint(x), []).append(self._micro)
        while len(self._passes) > 4096:
            self._passes.popitem(last=False)
        return self._micro

    def same_micro(self, x: Tensor) -> int:
        """Of a forward pass that checkpointing repeats: that which had this input, of several the
        newest that was not repeated, as autograd goes back.
        """
        passes = self._passes.get(fingerprint(x), [self._micro])
        return passes.pop() if len(passes) > 1 else passes[0]
