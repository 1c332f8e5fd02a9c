// Everything a recipe can say, as plain structs with the defaults of recipes.md §7.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace ng {

enum class HadamardSigns : uint8_t { random, fixed, none, layer };
/// Whether the mean over tokens is taken off what a GEMM narrows, and how wide it is added again.
enum class Center : uint8_t { none, wide, operand };

/// One of the three GEMMs of a linear layer: y = left · rightᵀ.
struct GemmRecipe {
  Operand left;   ///< fprop.input, dgrad.grad, wgrad.grad
  Operand right;  ///< fprop.weight, dgrad.weight, wgrad.input
  int hadamard = 0;
  HadamardSigns hadamard_signs = HadamardSigns::random;
  SumOrder sum = SumOrder::chain;
  Center center = Center::none;
  // Of fprop and dgrad only.
  Compute output = Compute::fp32;
  Operand narrow_output = operand_of("fp32");  ///< what the result is rounded to before; FP32: none

  [[nodiscard]] bool narrows_output() const { return !narrow_output.is_fp32(); }
  friend bool operator==(const GemmRecipe&, const GemmRecipe&) = default;
};

/// The numbers of one linear layer.
struct LinearRecipe {
  GemmRecipe fprop, dgrad, wgrad;
  friend bool operator==(const LinearRecipe&, const LinearRecipe&) = default;
};

/// In what a GEMM's output is rounded; `compute` follows the recipe's key of that name.
enum class OutputKind : uint8_t { compute, fp32, bf16, narrow };
struct OutputNumbers {
  OutputKind kind = OutputKind::compute;
  Operand narrow = operand_of("fp32");  ///< of that kind, and then as `compute`: else FP32
};

/// Noise added to weights in place of quantizing them. [recipes.md §1]
struct WeightNoise {
  NoiseKind kind = NoiseKind::none;
  std::vector<std::string> layers = {"*"};
  bool is_optional = false;  ///< they may mean no layer of a model
  Block block = {.kind = Block::Kind::tile, .rows = 32, .cols = 32};
  double b_init = 6;
  double b_target = 4;
  double bitwidth_weight_decay = 0.1;
  double bitwidth_loss = 0;
  /// Of the noisy weight.
  Operand cast = operand_of("bf16");
  /// Each block first by the format that Table C.1 names for its bits; then `cast` follows what the
  /// GEMM reads, FP32 or BF16.
  bool casts_by_table = false;

  /// Rounded to FP32 or BF16 and to nothing else.
  [[nodiscard]] bool casts_plainly() const {
    return !casts_by_table && (cast.is_fp32() || cast == operand_of("bf16"));
  }
  friend bool operator==(const WeightNoise&, const WeightNoise&) = default;
};

/// How weights persist and how an update is rounded into them. [recipes.md §5]
struct WeightStorage {
  enum class Master : uint8_t { none, fp32, fp16 };
  Operand storage;
  Master master = Master::none;
  UpdateRule update = UpdateRule::nearest;
  bool momentum_feedback = false;  ///< the rounding error goes into the first moment
  double rtol = 1e-2;
  int max_iters = 32;
  StepSearch search = StepSearch::norms;
  int residual_bits = 8;
  bool is_frozen = false;  ///< nothing updates them: of a model that is only evaluated
  friend bool operator==(const WeightStorage&, const WeightStorage&) = default;
};

/// All that a recipe says of one layer: what overrides may change.
struct LayerRecipe {
  LinearRecipe linear;
  WeightStorage weights;
  WeightNoise weight_noise;
  friend bool operator==(const LayerRecipe&, const LayerRecipe&) = default;

  /// Every default: FP32 everywhere, no noise.
  LayerRecipe();
};

struct OptimizerRecipe {
  enum class Kind : uint8_t { adamw, adam_mini, muon, sgd };
  Kind kind = Kind::adamw;
  Operand moment1, moment2;
};

/// Accumulation and reduction of gradients. [recipes.md §4.2]
struct GradientRecipe {
  enum class Reduce : uint8_t { fp32, wire };
  enum class Shard : uint8_t { flat, tensor };
  enum class Start : uint8_t { root, share, one };  ///< mu = 1/sqrt(N), 1/N, 1 on N ranks
  Compute accumulate = Compute::fp32;
  Operand communicate;
  Reduce reduce = Reduce::fp32;
  bool auto_scale = false;
  Start auto_scale_start = Start::root;
  double auto_scale_delta = 1e-5;
  int64_t auto_scale_growth_after = 1;
  int64_t growth_interval = 1000;
  Shard shard = Shard::flat;

  /// Whether mu waits for several good steps in a row, which somebody has to count.
  [[nodiscard]] bool counts_good_steps() const { return auto_scale_growth_after > 1; }
};

/// As what forward keeps, for backward, what operations that are no GEMM read; FP32: as it was
/// made. [rivals.md §2.9]
struct SavedRecipe {
  Operand norm;        ///< the input of a block's norms, of which backward makes their output again
  Operand activation;  ///< GELU's input, or gate and up
  Operand attention;   ///< q, k and v, and attention's output
};

struct AttentionRecipe {
  Compute probabilities = Compute::fp32;  ///< and the scores' gradient, as they enter products
};

struct CommunicationRecipe {
  Operand activations, weights, sums;
};

/// One state of a recipe, base or a phase: of its layers, and of the whole run. The `output`
/// members of `linear` are filled in when a layer is resolved.
struct RecipeSettings : LayerRecipe {
  OutputNumbers fprop_output, dgrad_output;
  Compute compute = Compute::fp32;
  OptimizerRecipe optimizer;
  GradientRecipe gradient;
  AttentionRecipe attention;
  SavedRecipe saved;
  CommunicationRecipe communication;

  /// Every default: FP32 everywhere.
  RecipeSettings();
};

}  // namespace ng
