// The matrices of a model that leaves for other programs: their values, and as what narrow numbers
// the GEMMs of a run saw them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "io/hf/folder.h"
#include "io/hf/names.h"
#include "io/model_name.h"
#include "numbers/narrow_matrix.h"
#include "recipe/phase_choice.h"

namespace ng {

/// A recipe whose fprop weights are exported: the codes that its GEMMs read.
struct TrainedNumbers {
  Recipe recipe;
  std::string shown;         ///< for errors: "recipe nvfp4", with its phase where it has several
  MeasuredPhase phase = {};  ///< of the recipe
};

/// Whether a matrix is the weight of a linear layer of a block.
[[nodiscard]] bool is_block_matrix(const ParameterSpec& spec);

/// Whether GEMMs read the weight in at least 16 bits, without a scale.
[[nodiscard]] bool is_wide(const Operand& operand);

class ModelWeights {
 public:
  /// Of a folder or a GGUF file; `trained` outlives this. Throws Error for what is wrong with it.
  ModelWeights(const io::ModelName& model, const std::optional<TrainedNumbers>& trained,
               Threads threads);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// Row `row` of parameter `index` of parameter_table.
  void read_row(size_t index, int64_t row, std::span<float> values) const;
  /// What the model's files hold that is not read, in sentences.
  [[nodiscard]] std::vector<std::string> left_out() const;
  /// All of it, rows one after the other; zeros of what is no parameter.
  [[nodiscard]] std::vector<float> values(const io::HfTensor& tensor) const;

  /// Whether a matrix is exported by the numbers of a recipe.
  [[nodiscard]] bool is_trained(const ParameterSpec& spec) const {
    return trained_ && is_block_matrix(spec);
  }
  /// Of such a matrix, fprop's weight operand by the recipe's phase. Throws Error at the
  /// recipe naming `shown`, the tensor, where its codes are not a function of the weight alone:
  /// stochastic rounding, a Hadamard transform, a prescale, a delayed scale, noise.
  [[nodiscard]] Operand trained_operand(const ParameterSpec& spec, const std::string& shown) const;
  /// Throws Error where that is not what `type` holds.
  void require_held(const ParameterSpec& spec, const std::string& shown, bool is_held,
                    std::string_view type, const std::string& remedy) const;
  /// Whether it has codes of other values than its own.
  [[nodiscard]] bool has_trained_codes(const ParameterSpec& spec, const std::string& shown) const;
  /// `values` of the matrix in these numbers, which are not FP32. Throws Error where the weight is
  /// stored in these numbers and its values are not those of the codes that training had.
  [[nodiscard]] NarrowMatrix trained_matrix(const ParameterSpec& spec,
                                            std::span<const float> values) const;

  /// A sentence on matrices that were wide in training, where there are any, of the first's
  /// operand: "fprop's weight of A and 3 others is bf16: its codes are BF16 numbers". `type`: as
  /// what values are written, "BF16".
  [[nodiscard]] std::optional<std::string> note_of_wide(std::span<const std::string> tensors,
                                                        const ParameterSpec& first,
                                                        std::string_view type) const;

 private:
  const std::optional<TrainedNumbers>& trained_;
  Threads threads_;
  io::ModelName model_;
  ModelConfig config_;
  io::ParameterReader read_;
};

}  // namespace ng
