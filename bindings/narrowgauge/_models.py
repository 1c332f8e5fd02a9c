"""Tokenizers, models and what formats make of files."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._errors import Error
from ._recipes import Recipe, words_of

Path = str | os.PathLike[str]
_log = logging.getLogger("narrowgauge")


class Tokenizer:
    """Text to token ids and back: "bytes", a tokenizer.json, or a folder with one."""

    def __init__(self, name: Path) -> None:
        self._core = _core.Tokenizer(os.fspath(name))

    def encode(self, text: str | bytes) -> list[int]:
        return self._core.encode(text.encode() if isinstance(text, str) else text)

    def decode(self, ids: Any) -> str:
        """The text; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode(errors="replace")

    def decode_bytes(self, ids: Any) -> bytes:
        """What the ids stand for, which may be any bytes."""
        return self._core.decode(_ids_of(ids).reshape(-1).tolist())

    @property
    def vocab(self) -> int:
        """Ids are below this."""
        return self._core.vocab

    @property
    def end_token(self) -> int | None:
        """What follows a whole document."""
        return self._core.end_token

    def __repr__(self) -> str:
        return f"<narrowgauge.Tokenizer {self._core.name}, {self.vocab} ids>"


def _ids_of(ids: Any) -> npt.NDArray[np.int32]:
    given = np.asarray(ids)
    if given.size == 0:
        return np.zeros(given.shape, np.int32)
    if given.dtype.kind not in "iu":
        raise Error(f"ids of {given.dtype}", "whole numbers")
    if given.min() < 0 or given.max() > np.iinfo(np.int32).max:
        wrong = given.min() if given.min() < 0 else given.max()
        raise Error(str(wrong), "an id from 0 on", key="ids")
    return np.ascontiguousarray(given, dtype=np.int32)


class Model:
    """A model folder in Hugging Face's layout, computed in the numbers of a recipe.

    Several threads may use one; they take turns.
    """

    def __init__(
        self,
        folder: Path,
        *,
        recipe: str | os.PathLike[str] | Recipe = "fp32",
        threads: int = 0,
        backend: str = "cpu",
    ) -> None:
        self.folder = os.fspath(folder)
        self._core = _core.Model(self.folder, words_of(recipe), backend, threads)
        self._tokenizer: Tokenizer | None = None
        for sentence in self._core.missing:
            _log.warning(sentence)

    @property
    def config(self) -> dict[str, Any]:
        """The model's config.json."""
        return self._core.config

    @property
    def tokenizer(self) -> Tokenizer:
        """That of the folder."""
        if self._tokenizer is None:
            self._tokenizer = Tokenizer(self.folder)
        return self._tokenizer

    def logits(self, ids: Any) -> npt.NDArray[np.float32]:
        """Of every token of a sequence: (tokens, vocabulary); of several, one more dimension."""
        ids = _ids_of(ids)
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
    ) -> Any:
        """What follows a prompt: text for text, a list of ids for ids."""
        if isinstance(prompt, (str, bytes)):
            ids = _ids_of(self.tokenizer.encode(prompt))
            vocab = self.tokenizer.vocab  # a model's may be padded
            made = self._core.generate(ids, tokens, temperature, top_k, top_p, seed, vocab)
            return self.tokenizer.decode(made)
        ids = _ids_of(prompt).reshape(-1)
        return self._core.generate(ids, tokens, temperature, top_k, top_p, seed, 0)

    def evaluate(
        self,
        data: Path,
        *,
        batch: int = 8,
        text_key: str = "text",
        template: str = "none",
        prefix_end: bool = False,
    ) -> dict[str, Any]:
        """Loss, perplexity, bits per byte over a text, as `narrowgauge eval --json` says them."""
        return self._core.evaluate(os.fspath(data), text_key, template, prefix_end, batch)

    def save(self, folder: Path, dtype: str = "F32") -> None:
        """A model folder with the tokenizer; dtype F32, BF16 or F16."""
        self._core.save(os.fspath(folder), dtype)

    def __repr__(self) -> str:
        return f"<narrowgauge.Model {self.folder}>"


def inspect(
    path: Path | Sequence[Path],
    formats: Sequence[str] | None = None,
    *,
    tensors: str = "*",
    threads: int = 0,
) -> dict[str, Any]:
    """What formats make of the tensors of files, as `narrowgauge inspect --json` says it."""
    paths = [path] if isinstance(path, (str, os.PathLike)) else path
    return _core.inspect([os.fspath(p) for p in paths], list(formats or []), tensors, threads)
