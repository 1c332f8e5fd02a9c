// What a recipe's noise does to a weight of a file: `narrowgauge noise`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "recipe/recipe.h"
#include "tools/tensor_input.h"

namespace ng {

/// "gaussws", "diffq", "nipq", "none".
[[nodiscard]] std::string_view name_of(NoiseKind kind);

struct NoiseFileSettings {
  /// Whose overrides apply: a linear layer of a block; empty: by layer_of_weight().
  std::string layer;
  int64_t blocks = 0;      ///< of the model; 0: the layer's is the last
  uint32_t tensor_id = 0;  ///< of random keys, as `seed` and `step`; of nipq's bit noise too
  uint64_t seed = 1;
  uint32_t step = 0;
  TensorNames tensors;  ///< which of `in` are meant
  std::string backend = "cpu";
  Threads threads;
  uint64_t thread_order = 0;  ///< of an emulated card
};

struct NoiseFileReport {
  std::string parameter;   ///< "blocks.0.mlp.up.weight"
  std::string kind;        ///< "gaussws"
  bool is_turned = false;  ///< the file has the weight as (inputs, outputs)
  int64_t rows = 0, cols = 0, blocks = 0;
  double least_bits = 0, mean_bits = 0, most_bits = 0;  ///< b_t over blocks
  int64_t nonzero = 0;                                  ///< elements whose noise is not 0
  /// Elements whose noise times its scale is not 0, and ŵ is what the weight alone rounds to.
  int64_t lost = 0;
  int64_t not_finite = 0;           ///< elements of ŵ, for which training skips a step
  std::vector<std::string> unread;  ///< tensors of `in` that mean nothing by this recipe;
                                    ///< none where the user named what is meant
};

/// Reads from `in`, all floats,
///   weight (r, c)
///   b_i    (blocks of rows, blocks of columns), else what training begins with; nipq: β, (1, 1)
///   grad   (r, c) = dL/dŵ; may be absent
///   noise  (r, c), used instead of the draw; may be absent
///   alpha, u_bit  (1, 1), nipq: a, else the largest weight, and u, else drawn
/// and writes to `out`, as F32,
///   noise        R, nipq: n
///   weight_hat   ŵ, rounded as the recipe's weight_noise.cast says
///   scale, b_t   of each block; nipq: Δ, and b
///   grad.weight, grad.b_t, grad.b_i, nipq: grad.alpha   with `grad`: dL/dw, dL/db_t without and
///                dL/db_i with the loss of bit-widths
/// Throws Error where the layer has no noise by the recipe, for what does not fit, and on failures
/// of files; `out` then stays as it was.
NoiseFileReport noise_file(const std::string& in, const std::string& out, const Recipe& recipe,
                           const NoiseFileSettings& settings);

}  // namespace ng
