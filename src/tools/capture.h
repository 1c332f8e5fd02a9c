// What linear layers of a run work on in one of its steps, written out: `narrowgauge capture`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "recipe/phase_choice.h"

namespace ng {

struct CaptureSettings {
  std::optional<int64_t> step;      ///< steps done before; none: those of the newest checkpoint
  std::vector<std::string> layers;  ///< patterns of names: "blocks.*.mlp.up", "head"
  int64_t threads = -1;             ///< -1: as the run
};

struct CapturedTensor {
  std::string name;  ///< "blocks.0.mlp.up.x"
  int64_t rows = 0, cols = 0;
};

struct CaptureReport {
  std::string recipe;
  int64_t step = 0;        ///< done before the batch: it is that of step + 1
  int64_t checkpoint = 0;  ///< from which was trained; 0: from the beginning
  MeasuredPhase phase;
  int64_t sequences = 0, length = 0, micros = 0;  ///< of the batch
  double loss = 0;
  std::optional<double> recorded;  ///< what metrics.jsonl has; none: no line of that step
  bool is_skipped = false;         ///< the step was not finite
  std::vector<CapturedTensor> tensors;
};

/// How many of the steps up to the batch are done.
using CaptureProgress = std::function<void(int64_t done, int64_t total)>;
using CaptureNotice = std::function<void(const std::string& sentence)>;

/// Takes the run in folder `run` to where it was after `settings.step` steps, in memory, does the
/// next one, and writes to `out` of every linear layer L that matches, as F32,
///   L.x (T, K), L.weight (N, K) before the step, L.dy (T, N), L.dx (T, K), L.dw (N, K)
/// with y = x·Wᵀ, T the tokens of all its micro-batches. x and dy are what Q is applied to; dx is
/// Q(dy)·Q(W) of this layer alone; dw = Q(dy)ᵀ·Q(x), before anything clips, sends or updates; of a
/// head that is tied to the embedding, with the embedding's share. Of a frozen weight there is no
/// dw. The metadata have capture (the layers), run, recipe, recipe_hash, phase, step, seed, loss,
/// sequences, length, micro_batches, blocks. Nothing is written into the run. Throws Error where a
/// pattern matches no layer, for what is wrong with the run, and on failures of files.
CaptureReport capture(const std::string& run, const std::string& out,
                      const CaptureSettings& settings, const CaptureProgress& progress,
                      const CaptureNotice& notice);

}  // namespace ng
