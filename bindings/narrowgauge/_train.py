"""Training runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from . import _core
from ._arguments import is_a
from ._paths import Path, path_text
from ._recipes import Recipe, words_of
from ._toml import setting_lines

_log = logging.getLogger("narrowgauge")


class Trainer:
    """A run of a run file, to the bits of `narrowgauge train`. Texts, recipe and model are opened
    and all memory is taken here; what the user should read is logged as "narrowgauge".

    set: keys of the run file, {"train.steps": 50}. recipe: instead of the run file's.
    out: the run's folder, else runs/NAME. resume: go on from its newest whole checkpoint.
    """

    def __init__(
        self,
        run: Path,
        set: Mapping[str, Any] | None = None,
        *,
        recipe: str | os.PathLike[str] | Recipe | None = None,
        out: Path | None = None,
        resume: bool = False,
    ) -> None:
        if set is not None:
            is_a(set, Mapping, 'a mapping, as {"train.steps": 50}', "set")
        settings = [line.replace(" = ", "=", 1) for line in setting_lines(set or {})]
        folder = "" if out is None else path_text(out, "out")
        self._core = _core.Trainer(
            path_text(run), settings, words_of(recipe), folder, bool(resume), _log.warning
        )

    @property
    def plan(self) -> dict[str, Any]:
        """What will be trained, in which numbers, on what, for how long."""
        return self._core.plan

    @property
    def memory(self) -> dict[str, Any]:
        """Bytes of it by kind beside FP32 AdamW's, as the event `memory` of metrics.jsonl."""
        return self._core.memory

    def train(self, progress: Callable[[dict[str, Any]], object] | None = None) -> dict[str, Any]:
        """Trains to the end, or until `progress`, given each line of metrics.jsonl, says False.

        An exception of `progress` and Ctrl-C stop the run as well: its step and a checkpoint are
        finished, then they are raised. Returns the steps done, the last validation, a sample and
        where the model is.
        """
        if progress is not None:
            is_a(progress, Callable, "what can be called", "progress")
        return self._core.train(progress)
