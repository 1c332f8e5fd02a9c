"""Models, and what formats make of files."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._arguments import mapping_of_texts, real, seed_of, text, texts, threads_of, whole
from ._errors import Error
from ._paths import Path, path_text, path_texts
from ._recipes import Recipe, words_of
from ._tokenizers import Tokenizer, ids_of

_log = logging.getLogger("narrowgauge")


class Model:
    """A model folder in Hugging Face's layout, quantized or not, or of PEFT's adapters, or a .gguf
    file, computed in the numbers of a recipe.

    base, of adapters: the model beside which they stand, else as their configuration says.
    Several threads may use one; they take turns.
    """

    def __init__(
        self,
        folder: Path,
        *,
        base: Path | None = None,
        recipe: str | os.PathLike[str] | Recipe = "fp32",
        threads: int = 0,
        backend: str = "cpu",
    ) -> None:
        self.folder = path_text(folder)
        self._base = "" if base is None else path_text(base, "base")
        self._core = _core.Model(
            self.folder, self._base, words_of(recipe), text(backend, "backend"), threads_of(threads)
        )
        self._tokenizer: Tokenizer | None = None
        for sentence in self._core.missing:
            _log.warning(sentence)

    @property
    def config(self) -> dict[str, Any]:
        """The model's config.json."""
        return self._core.config

    @property
    def end_tokens(self) -> list[int]:
        """The ids that end what it generates: its configuration's, else its tokenizer's."""
        return self._core.end_tokens

    @property
    def tokenizer(self) -> Tokenizer:
        """That of the folder."""
        if self._tokenizer is None:
            self._tokenizer = Tokenizer(self._core.tokenizer_place)
        return self._tokenizer

    def logits(self, ids: Any) -> npt.NDArray[np.float32]:
        """Of every token of a sequence: (tokens, vocabulary); of several, one more dimension."""
        ids = ids_of(ids)
        if ids.ndim == 0:
            raise Error("an id alone", "a sequence of ids", key="ids")
        if ids.ndim == 1:
            return self._core.logits(ids)
        return np.stack([self.logits(sequence) for sequence in ids])

    def generate(
        self,
        prompt: str | bytes | Sequence[int] | npt.NDArray[Any],
        *,
        tokens: int = 200,
        temperature: float = 0.8,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 1,
        ignore_eos: bool = False,
        no_bos: bool = False,
    ) -> Any:
        """What follows a prompt: text for text, a list of ids for ids.

        It ends with one of end_tokens, which is the last of the ids and not in the text, unless
        ignore_eos. A text gets the tokenizer's text_begin in front, unless no_bos or it has it.
        """
        rules = (
            whole(tokens, "tokens", 0), real(temperature, "temperature"), whole(top_k, "top_k"),
            real(top_p, "top_p"), seed_of(seed),
        )  # fmt: skip
        if isinstance(prompt, (str, bytes)):
            ids = self.tokenizer.encode(prompt)
            begin = [] if no_bos else self.tokenizer.text_begin
            if ids[: len(begin)] != begin:
                ids = begin + ids
            vocab = self.tokenizer.vocab  # a model's may be padded
            made = self._core.generate(ids_of(ids), *rules, vocab, bool(ignore_eos))
            if not ignore_eos and made and made[-1] in self.end_tokens:
                made.pop()
            return self.tokenizer.decode(made)
        return self._core.generate(ids_of(prompt).reshape(-1), *rules, 0, bool(ignore_eos))

    def evaluate(
        self,
        data: Path,
        *,
        batch: int = 8,
        text_key: str = "text",
        template: str = "none",
        tokens: str = "auto",
        special_tokens: str = "recognized",
        ignored_keys: str | Sequence[str] = (),
        prefix_end: bool = False,
        no_bos: bool = False,
        document_mask: bool = False,
    ) -> dict[str, Any]:
        """Loss, perplexity, bits per byte over a text and which files it is of: what `narrowgauge
        eval --json` says.

        data: a text, token file or .jsonl; text_key, template, tokens, special_tokens and
        ignored_keys as [data] of a run file has them. prefix_end: the begin token, or where there
        is none the end token, before the text, as lm-eval has it. no_bos: texts without the
        tokenizer's text_begin. document_mask: no token sees one of another document.
        """
        return self._core.evaluate(
            path_text(data, "data"), text(text_key, "text_key"), text(template, "template"),
            text(tokens, "tokens"), text(special_tokens, "special_tokens"),
            texts(ignored_keys, "ignored_keys"), bool(prefix_end), bool(no_bos),
            bool(document_mask), whole(batch, "batch", 1),
        )  # fmt: skip

    def save(self, folder: Path, dtype: str = "F32") -> None:
        """A model folder with the tokenizer, special tokens and settings of generation; dtype F32,
        BF16 or F16."""
        self._core.save(path_text(folder), text(dtype, "dtype"))

    def export(
        self,
        path: Path,
        type: str,
        *,
        to: str | None = None,
        weights: str | None = None,
        recipe: str | os.PathLike[str] | Recipe | None = None,
        keep: Mapping[str, str] | None = None,
        block: str | tuple[int, int] | None = None,
        share_scales: bool = False,
        threads: int = 0,
    ) -> None:
        """The model for other programs, as `narrowgauge export` writes it.

        to: "gguf", a file for llama.cpp, or "hf", a folder for transformers and vLLM; else as the
        path ends. type: for gguf f32, f16, bf16, q8_0, mxfp4, nvfp4; for hf bf16, nvfp4, mxfp4,
        mxfp8, fp8_tensor, fp8_channel, fp8_block, fp8_fine, modelopt.
        weights: "trained" writes the codes and scales that training's GEMMs read, by `recipe`, else
        that of the run the model lies in. keep, of gguf: {"blk.0.*": "bf16"}, the last that matches
        counts. block, of fp8_block and fp8_fine: rows and columns that share a scale. share_scales,
        of hf: one scale of the tensor for q, k, v and one for gate, up.
        What the user should know of the result is logged.
        """
        if weights not in (None, "trained"):
            raise Error(f'"{weights}"', '"trained", or None for plain rounding', key="weights")
        if weights is None and recipe is not None:
            raise Error("", 'goes with weights="trained"', key="recipe")
        of = words_of(recipe) if weights is not None else None
        export_folder(
            self.folder, self._base, path_text(path), to, type, of, keep, block, share_scales,
            threads,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<narrowgauge.Model {self.folder}>"


def export_folder(
    folder: str, base: str, out: str, to: str | None, type: str, recipe: str | None,
    keep: Mapping[str, str] | None, block: str | tuple[int, int] | None, share_scales: bool,
    threads: int,
) -> None:  # fmt: skip
    """What Model.export does. recipe: of weights as trained, "": its run's; None: as values."""
    kind = ("gguf" if out.endswith(".gguf") else "hf") if to is None else text(to, "to")
    kept = mapping_of_texts({} if keep is None else keep, "keep", '{"blk.0.*": "bf16"}')
    notes = _core.export_model(
        folder, base, out, kind, text(type, "type"), recipe is not None, recipe or "",
        list(kept.items()), _block_of(block), bool(share_scales), threads_of(threads),
    )  # fmt: skip
    for sentence in notes:
        _log.warning(sentence)


def _block_of(block: str | tuple[int, int] | None) -> tuple[int, int] | None:
    if block is None:
        return None
    sizes: Sequence[Any] = block.split("x") if isinstance(block, str) else block
    if not isinstance(sizes, tuple | list) or len(sizes) != 2 or (
        isinstance(block, str) and not all(size.isdecimal() for size in sizes)
    ):
        raise Error(f"{block!r}", 'rows and columns, as "64x32" or (64, 32)', key="block")
    if isinstance(block, str):
        sizes = [int(size) for size in sizes]
    rows, cols = (whole(size, "block", 1, 2**20) for size in sizes)
    return rows, cols


def inspect(
    path: Path | Sequence[Path],
    formats: str | Sequence[str] | None = None,
    *,
    tensors: str = "*",
    threads: int = 0,
) -> dict[str, Any]:
    """What formats make of the tensors of safetensors and GGUF files, folders and patterns, as
    `narrowgauge inspect --json` says it; of a token file what its header says.
    """
    names = [formats] if isinstance(formats, str) else formats or []
    return _core.inspect(
        path_texts(path, "path"), [text(name, "formats") for name in names],
        text(tensors, "tensors"), threads_of(threads),
    )  # fmt: skip
