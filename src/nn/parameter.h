// A trainable tensor: its names and shape, where its values lie, and its gradient of this step.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "nn/source.h"
#include "run/run.h"
#include "tensor/cut.h"

namespace ng {

enum class Init : uint8_t { normal, residual_normal, zeros, ones, kaiming_uniform };

/// One parameter: the row of the model's table that everything else about it derives from.
struct ParameterSpec {
  std::string name;     ///< canonical: "blocks.0.attn.q.weight" [recipes.md §0]
  std::string hf_name;  ///< in the transformers layout
  int64_t rows = 0;     ///< matrices are (out, in); vectors 1 × n
  int64_t cols = 0;
  bool is_vector = false;      ///< of one dimension, or of bit-widths: FP32, no weight decay
  bool hf_transposed = false;  ///< transformers stores (in, out): GPT-2's Conv1D
  Init init = Init::normal;
  bool is_frozen = false;               ///< nothing trains it: it has no gradient, states or owner
  bool is_adapter = false;              ///< one of a low-rank pair beside frozen weights: FP32
  std::optional<float> weight_decay{};  ///< its own, whatever others have
  /// Which part of the parameter `rows` and `cols` are, where ranks divide it.
  Cut cut{};
};

/// The ranks among which the states of a parameter are dealt, and that sum its gradient: those that
/// have the same part of it.
[[nodiscard]] inline Comm& owners_of(const Run& run, const ParameterSpec& spec) {
  return spec.cut ? run.comm() : run.ranks().world();
}

struct Parameter {
  ParameterSpec spec;
  /// Where the rows begin in the whole tensor, and how many that has; 0: these are all. A part of a
  /// parameter has no gradient of its own but what its owner sums.
  int64_t first_row = 0, whole_rows = 0;
  bool is_own = false;      ///< its states are on no other rank
  bool is_plain = true;     ///< its value, in FP32, is all that updates go into
  bool is_copied = false;   ///< its value is a copy of the master that no checkpoint has
  uint32_t id = 0;          ///< in the model's TensorTable
  UpdatedWeight weight;     ///< (rows, cols), persistent: its value, master and carry
  Stored moment1, moment2;  ///< persistent; no rows until an optimizer claims them
  /// As what the gradient of a matrix is kept between micro-batches. [recipes.md §7,
  /// `gradient.accumulate`]
  const ElementFormat* grad_element = &fp32_format();
  /// As what a finished gradient is sent and kept, and how its scale gives way. [recipes.md §7,
  /// `gradient.communicate`]; fp32: as it was summed.
  Operand communicate = operand_of("fp32");
  AutoScale* auto_scale = nullptr;  ///< persistent; null: mu is 1
  float* good_steps = nullptr;      ///< of MoveAutoScale, persistent; null: it counts none
  Tensor grad;  ///< exists from the first contribution of a step until the update
  std::array<Tensor, 2> grad_scales;  ///< of a finished gradient in few bits; of its tensor
  /// What GEMMs read in place of the value in this step, where there is noise, and what noise was
  /// multiplied by.
  CastTensor noisy;
  Tensor noise_scales;
  /// Operands that wait for a GEMM of this step, or for more than one: fprop's, then dgrad's.
  std::array<Prepared, 2> operands;
  /// Where these lie, where they outlive the step's program; null: in its memory.
  std::array<OperandMemory*, 2> operand_memory{};

  [[nodiscard]] int64_t rows_of_whole() const { return whole_rows > 0 ? whole_rows : spec.rows; }
  [[nodiscard]] int64_t elements_of_whole() const { return rows_of_whole() * spec.cols; }
  /// Of the whole tensor.
  [[nodiscard]] ParameterSpec whole_spec() const;
  /// What these rows keep of a state of the whole tensor.
  [[nodiscard]] StoredSpec own(const StoredSpec& state) const;

  /// What forward and backward read.
  [[nodiscard]] const View& value() const { return weight.value.view; }
  /// What the update reads: with its scales.
  [[nodiscard]] View gradient() const;
};

/// A weight as operations read it: itself, or a copy in BF16 where that holds its values exactly,
/// else in FP32. `copy` keeps that alive.
struct ReadableWeight {
  ConstView view;
  Tensor copy;
};
[[nodiscard]] ReadableWeight readable(Run& run, const Stored& weight);
[[nodiscard]] inline ReadableWeight readable(Run& run, const Parameter& parameter) {
  return readable(run, parameter.weight.value);
}
/// A gain or a bias as operations read it: in FP32.
[[nodiscard]] ReadableWeight readable_vector(Run& run, const Parameter& parameter);
/// The elements of a weight that has scales, without them.
[[nodiscard]] ReadableWeight readable_elements(Run& run, const Stored& weight);

/// Where a finished gradient goes: the first of a step overwrites, later ones add.
struct GradientTarget {
  View view;
  Into into = Into::overwrite;
};
[[nodiscard]] GradientTarget gradient_target(Run& run, Parameter& parameter);

/// For operations that only add: the gradient, zero before the first contribution of a step.
[[nodiscard]] View gradient_to_add_to(Run& run, Parameter& parameter);

/// After the last contribution of a step: the gradient as it is sent, which one process keeps too,
/// so that it trains as many with equal gradients do; its sum in FP32 is gone. [errata-2, 41]
/// `amax`: the largest magnitude of all ranks, whose scale they share; null: this gradient's own.
void finish_gradient(Run& run, Parameter& parameter, const float* amax = nullptr);
/// Room for a gradient as it is sent, in the place of its sum.
void allocate_finished_gradient(Run& run, Parameter& parameter);

/// After the update: the gradient and what was made from the old value are gone.
void forget_step(Parameter& parameter);

}  // namespace ng
