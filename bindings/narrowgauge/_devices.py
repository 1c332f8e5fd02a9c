"""Tensors of torch on a device that the kernels compute on: which do, and narrow numbers there."""

from __future__ import annotations

import functools
import sys
from typing import Any

from . import _core
from ._arrays import is_torch
from ._core import Format
from ._errors import Error
from ._quantized import Counts, Quantized

#: By which backend the kernels compute tensors of a type of device. Tests put an emulated card in
#: the place of the CPU.
KERNELS = {"cpu": "cpu"} | ({"cuda": "cuda"} if "cuda" in _core.backends() else {})


def is_on_device(x: object) -> bool:
    """Whether x is a tensor of a device with kernels, which is not the host's memory."""
    return is_torch(x) and KERNELS.get(x.device.type, "cpu") != "cpu"  # type: ignore[attr-defined]


def stream_of(device: Any) -> int:
    """Behind what torch was given for a device so far; 0 where there is no such thing."""
    if device.type != "cuda":
        return 0
    return int(sys.modules["torch"].cuda.current_stream(device).cuda_stream)


def when(device: Any, step: int, micro: int, evaluates: bool, repeats: bool = False) -> _core.When:
    """Of a call, on the stream of its device."""
    return _core.When(step, micro, evaluates, repeats, stream_of(device))


def kernels_of(device: Any) -> tuple[str, int]:
    """The backend that computes there, or on the CPU where none does, and its device."""
    return KERNELS.get(device.type, "cpu"), device.index or 0


@functools.lru_cache(maxsize=None)
def _run_of(backend: str, device: int) -> _core.LayerRun:
    return _core.LayerRun(0, 1, backend, device)


def run_of(x: Any) -> _core.LayerRun:
    """Where a tensor's device computes what no layer does."""
    return _run_of(*kernels_of(x.device))


def matrix_on_device(x: Any) -> Any:
    """All dimensions but the last as rows, in FP32 or BF16; a copy only where it is another type or
    has gaps in its rows."""
    torch = sys.modules["torch"]
    x = x.detach().resolve_neg()
    if x.dtype not in (torch.float32, torch.bfloat16):
        if not x.dtype.is_floating_point or x.dtype == torch.float64:
            raise Error(f"a tensor of {x.dtype} on {x.device}", "torch.float32 or torch.bfloat16")
        x = x.to(torch.float32)
    m = x if x.dim() == 2 else x.reshape(-1, x.shape[-1] if x.dim() else 1)
    is_whole = m.stride(1) == 1 or m.shape[1] == 1
    is_apart = m.stride(0) >= m.shape[1] or m.shape[0] == 1
    return m if is_whole and is_apart else m.contiguous()


class QuantizedTensor(Quantized):
    """A tensor of a device as codes and scales there: what is an array of Quantized is a tensor.

    Nobody waits for the device but who asks for `counts`.
    """

    def __init__(
        self, x: Any, format: Format, along: str, hadamard: int, seed: int, tensor: int
    ) -> None:  # fmt: skip
        torch = sys.modules["torch"]
        m = matrix_on_device(x)
        self._format, self._along, self._hadamard = format, along, hadamard
        self.shape, self.device = tuple(x.shape), x.device
        self._numbers = _core.DeviceNumbers(
            run_of(x), format, m.shape[0], m.shape[1], along == "rows", hadamard
        )
        self._empty = functools.partial(torch.empty, device=x.device)
        self._storage = self._empty(self._numbers.bytes, dtype=torch.uint8)
        self._stats = torch.zeros(
            self._numbers.stats_words, dtype=torch.int64, device=x.device
        )
        if m.numel() > 0:
            self._numbers.quantize(
                when(x.device, 0, 0, False), m, self._storage, self._stats, seed, tensor
            )

    def _unpack(self) -> tuple[Any, Any, Any, Any]:
        """Values, codes, scales and the second level, as the operand lies: none is kept."""
        torch = sys.modules["torch"]
        rows, _, padded = self._numbers.shape
        scale_rows, scale_cols = self._numbers.scale_shape
        values, codes = self._empty(rows, padded), self._empty(rows * padded, dtype=torch.int16)
        has_scales = scale_rows * scale_cols > 0
        scales = self._empty(scale_rows * scale_cols) if has_scales else None
        level = self._empty(1) if has_scales else None
        if values.numel() > 0:
            self._numbers.unpack(
                when(self.device, 0, 0, False), self._storage, values, codes, scales, level
            )
        return values, codes.view(rows, padded), scales, level

    def _of_source(self, of_operand: Any) -> Any:
        """In the source's shape; where a transform filled it up, in its own."""
        _, k, padded = self._numbers.shape
        size = -(-k // max(self._hadamard, 1)) * max(self._hadamard, 1)
        of = of_operand[:, :size]
        of = of.t() if self._along == "rows" else of
        return of.reshape(self.shape) if size == k else of.contiguous()

    @property
    def format(self) -> Format:
        return self._format

    @property
    def along(self) -> str:
        return self._along

    @property
    def hadamard(self) -> int:
        return self._hadamard

    @property
    def codes(self) -> Any:
        """uint8, or int16 where they have more than 8 bits, in the source's shape."""
        torch = sys.modules["torch"]
        codes = self._of_source(self._unpack()[1])
        return codes.to(torch.uint8) if self._format.element.bits <= 8 else codes

    @property
    def scales(self) -> Any:
        """What codes of a block are multiplied by, by blocks of the matrix; None: there is none."""
        scales = self._unpack()[2]
        if scales is None:
            return None
        rows, cols = self._numbers.scale_shape
        scales = scales.view(rows, cols)
        return scales.t() if self._along == "rows" else scales

    @property
    def scale_codes(self) -> Any:
        raise Error("scale codes of a tensor on a device", ".scales, or quantize(x.cpu(), ...)")

    @property
    def zeros(self) -> None:
        return None

    @property
    def tensor_scale(self) -> Any:
        """A tensor of one value; 1 where there is no second level."""
        torch = sys.modules["torch"]
        level = self._unpack()[3]
        return torch.ones(1, device=self.device) if level is None else level

    @property
    def counts(self) -> Counts:
        return Counts(*self._stats.tolist()[:5])

    def dequantize(self, threads: int = 0) -> Any:
        return self._of_source(self._unpack()[0])

    def as_ml_dtypes(self) -> Any:
        raise Error(f"an array of what is on {self.device}", ".codes.cpu()")

    def as_torch(self) -> Any:
        """The codes as a tensor of torch's type of that name."""
        torch = sys.modules["torch"]
        dtype = getattr(torch, self._format.element.name, None)
        if dtype is None or self._format.element.bits != 8:
            name = self._format.element.name
            raise Error(f"torch has no {name} of 8 bits", ".codes, or .dequantize()")
        return self.codes.view(dtype)

    def pack(self, layout: str) -> Any:
        raise Error(f"files of what is on {self.device}", "quantize(x.cpu(), ...)")

    def times(self, other: QuantizedTensor) -> Any:
        """self · otherᵀ (M, N)."""
        if self.device != other.device:
            raise Error(f"numbers on {self.device} and {other.device}", "one device for both")
        (m, *_), (n, *_) = self._numbers.shape, other._numbers.shape
        y = self._empty(m, n)
        if y.numel() > 0:
            self._numbers.multiply(
                when(self.device, 0, 0, False), self._storage, other._numbers, other._storage, y
            )
        return y


def product_on_device(
    a: Any, b: Any, formats: tuple[str | Format, str | Format], rounding: str, transpose_b: bool,
    hadamard: int, sum_order: str, seed: int,
) -> Any:  # fmt: skip
    """a · bᵀ of two tensors of one device."""
    torch = sys.modules["torch"]
    if not is_torch(b) or a.device != b.device:
        raise Error("tensors of two devices", "one device for both")
    a, b = matrix_on_device(a), matrix_on_device(b)
    product = _core.DeviceProduct(
        run_of(a), formats[0], formats[1], rounding, transpose_b, hadamard, sum_order, seed
    )
    of_a, of_b = (
        torch.empty(size, dtype=torch.uint8, device=a.device)
        for size in product.bytes(tuple(a.shape), tuple(b.shape))
    )
    y = torch.empty(a.shape[0], b.shape[1 if transpose_b else 0], device=a.device)
    product.multiply(when(a.device, 0, 0, False), a, b, of_a, of_b, y)
    return y
