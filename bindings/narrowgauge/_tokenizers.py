"""Tokenizers, and training one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arguments, _core
from ._arguments import text, threads_of, whole
from ._errors import Error
from ._paths import Path, path_text, path_texts

_log = logging.getLogger("narrowgauge")


class Tokenizer:
    """Text to token ids and back: "bytes", a tokenizer.json, a folder with one, a .gguf file."""

    def __init__(self, name: Path) -> None:
        self._core = _core.Tokenizer(path_text(name))

    def encode(
        self, text: str | bytes | bytearray | memoryview, *, special_tokens: str = "recognized"
    ) -> list[int]:
        """Token ids. special_tokens: "recognized" by their content, or that is "text"."""
        if isinstance(text, str):
            text = text.encode(errors="replace")  # surrogates, which UTF-8 does not have
        elif not isinstance(text, (bytes, bytearray, memoryview)):
            raise TypeError(f"text: {type(text).__name__} is neither str nor bytes")
        return self._core.encode(
            bytes(text), _arguments.text(special_tokens, "special_tokens")
        )

    def decode(self, ids: Any) -> str:
        """The text; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode(errors="replace")

    def decode_bytes(self, ids: Any) -> bytes:
        """What the ids stand for, which may be any bytes."""
        return self._core.decode(ids_of(ids).reshape(-1).tolist())

    def save(self, folder: Path) -> None:
        """tokenizer.json, tokenizer_config.json and chat templates in a folder, which is made."""
        self._core.save(path_text(folder))

    @property
    def vocab(self) -> int:
        """Ids are below this."""
        return self._core.vocab

    @property
    def end_token(self) -> int | None:
        """What follows a whole document."""
        return self._core.end_token

    @property
    def bos_token(self) -> int | None:
        """What tokenizer_config.json says begins a text, if anything."""
        return self._core.bos_token

    @property
    def pad_token(self) -> int | None:
        """What tokenizer_config.json says fills a batch, if anything."""
        return self._core.pad_token

    @property
    def text_begin(self) -> list[int]:
        """What stands before a text that a model is given, which encode does not add."""
        return self._core.text_begin

    def __repr__(self) -> str:
        return f"<narrowgauge.Tokenizer {self._core.name}, {self.vocab} ids>"


def train_tokenizer(
    files: Path | Sequence[Path],
    size: int,
    pattern: str = "gpt2",
    *,
    out: Path | None = None,
    min_frequency: int = 0,
    nfc: bool = False,
    special: str | Sequence[str] = ("<|endoftext|>",),
    threads: int = 0,
) -> Tokenizer:
    """A byte-level BPE of texts, as `narrowgauge tokenizer train` finds it; each file is a text.

    size: tokens, special ones and the 256 bytes included; fewer where the texts give no more.
    pattern: how texts are cut before: gpt2, llama3, qwen2 or o200k. out: the tokenizer.json to
    write, if any. min_frequency: of a pair that becomes a token. nfc: normalize. special: tokens
    that get the first ids.
    """
    tokens = [special] if isinstance(special, str) else special
    target = "" if out is None else path_text(out, "out")
    made = Tokenizer.__new__(Tokenizer)
    made._core = _core.train_tokenizer(
        path_texts(files, "files"), target, whole(size, "size"),
        text(pattern, "pattern"), whole(min_frequency, "min_frequency"), bool(nfc),
        [text(token, "special") for token in tokens], threads_of(threads),
    )  # fmt: skip
    if made.vocab < size:
        _log.warning("the texts give no more than %d tokens", made.vocab)
    return made


def ids_of(ids: Any) -> npt.NDArray[np.int32]:
    given = np.asarray(ids)
    if given.size == 0:
        return np.zeros(given.shape, np.int32)
    if given.dtype.kind not in "iu":
        raise Error(f"ids of {given.dtype}", "whole numbers")
    if given.min() < 0 or given.max() > np.iinfo(np.int32).max:
        wrong = given.min() if given.min() < 0 else given.max()
        raise Error(str(wrong), "an id from 0 on", key="ids")
    return np.ascontiguousarray(given, dtype=np.int32).reshape(given.shape)
