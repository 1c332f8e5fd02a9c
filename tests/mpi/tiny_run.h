// A run of ranks that takes seconds, in the mode whose bits do not depend on their number.
#pragma once

#include <fmt/format.h>

#include "e2e/program.h"

namespace ng::e2e {

/// text.txt in `folder`, which the run reads.
inline void write_tiny_texts(const fs::path& folder) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += fmt::format("{} plus {} is {}. ", i, i * i, i + i * i);
  write_text(folder / "text.txt", text);
}

struct TinyRun {
  int steps = 0;
  int micros_of_rank = 0;
  int checkpoint_every = 2;
};

inline void write_tiny_run(const fs::path& file, const TinyRun& run) {
  write_text(file, fmt::format("recipe = 'nvfp4'\nseed = 3\ndata.train = 'text.txt'\n"
                               "model = {{ layers=2, heads=2, kv_heads=1, head_dim=8, width=16,"
                               " ffn=24, context=16 }}\n"
                               "train = {{ steps={}, batch=1, accumulate={}, warmup=2, lr=1e-2,"
                               " checkpoint_every={}, threads=1, deterministic='global' }}\n",
                               run.steps, run.micros_of_rank, run.checkpoint_every));
}

}  // namespace ng::e2e
