// What a recipe makes of a linear layer of a file: `narrowgauge linear`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/threads.h"
#include "recipe/recipe.h"
#include "tools/tensor_input.h"

namespace ng {

struct LinearFileSettings {
  /// Whose overrides apply: a linear layer of a block or the head; empty: by layer_of_weight().
  std::string layer;
  int64_t blocks = 0;      ///< of the model; 0: the layer's is the last
  int phase = 0;           ///< of the recipe
  uint32_t tensor_id = 0;  ///< of random keys, as `seed`, `step` and `micro`: of the weight
  std::optional<uint32_t> input_id, output_id;  ///< of X and of dL/dY; none: tensor_id
  uint64_t seed = 1;
  uint32_t step = 0;
  uint32_t micro = 0;
  TensorNames tensors;  ///< which of `in` are meant
  std::string backend = "cpu";
  Threads threads;
  uint64_t thread_order = 0;  ///< of an emulated card
};

/// One of the six operands, or of the three products.
struct LinearFigures {
  std::string name;     ///< "fprop.input", "output"
  std::string numbers;  ///< "mxfp4 stochastic", "bf16"
  int64_t rows = 0, cols = 0;
  /// Against the values before the cast, transformed as they; of products, against those of FP32
  /// operands. +Inf: none lost; NaN: there are only zeros.
  double sqnr_db = 0;
  double saturated = 0, flushed = 0;  ///< shares of the values; of products 0
};

struct LinearFileReport {
  std::string recipe;      ///< its name
  std::string layer;       ///< "blocks.0.mlp.up"
  bool is_turned = false;  ///< the file has the weight as (inputs, outputs)
  bool is_last = false;    ///< its block counts as the last, and that means other numbers
  int64_t tokens = 0, inputs = 0, outputs = 0;
  std::vector<LinearFigures> figures;
};

/// Reads from `in`, floats of any kind, taken as they are,
///   weight (N, K); (K, N) where its name says that the model stores it so
///   input  (T, K), leading dimensions count as T
///   grad   (T, N) = dL/dY; may be absent: then there is the forward product alone
///   bias   (N); may be absent
/// and writes to `out`, with the recipe as it is in a phase, delayed scales of 1, no
/// noise, no storage of weights [linear §1],
///   output, input_grad, weight_grad   F32: Y = Q(X)·Q(W)ᵀ + b (T, N), dX = Q(G)·Q(W) (T, K),
///                                     dW = Q(G)ᵀ·Q(X) (N, K); Y and dX rounded to BF16 where the
///                                     recipe says so
///   G.O.codes         U8, of 16 bits U16: of operand O of GEMM G ("fprop.input"), (rows, length of
///                     the reduction, padded), after the transform; none of FP32
///   G.O.scale         what decodes the blocks, as `cast` has it: codes of E8M0 and E4M3, else F32
///   G.O.tensor_scale  F32 of E4M3 scales: (1), or one of each region of tensor_block
///   G.O.values        F32: element · scale · tensor_scale, a prescale still in it
/// Throws Error for a layer that is no linear one, for what does not fit, and on failures of files;
/// `out` then stays as it was.
LinearFileReport linear_file(const std::string& in, const std::string& out, const Recipe& recipe,
                             const LinearFileSettings& settings);

}  // namespace ng
