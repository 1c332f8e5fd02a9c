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
#include "numbers/narrow_matrix.h"
#include "recipe/recipe.h"

namespace ng {

/// A recipe whose fprop weights are exported: the codes that its GEMMs read.
struct TrainedNumbers {
  Recipe recipe;
  std::string shown;  ///< for errors: "recipe nvfp4"
};

class ModelWeights {
 public:
  /// Of a folder or a GGUF file. Throws Error for what is wrong with it.
  explicit ModelWeights(const std::string& model);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// Row `row` of parameter `index` of parameter_table.
  void read_row(size_t index, int64_t row, std::span<float> values) const;
  /// All of it, rows one after the other.
  [[nodiscard]] std::vector<float> values(size_t index, const ParameterSpec& spec) const;

 private:
  std::string path_;
  ModelConfig config_;
  io::ParameterReader read_;
};

/// Whether a matrix is the weight of a linear layer of a block.
[[nodiscard]] bool is_block_matrix(const ParameterSpec& spec);

/// fprop's weight operand of the matrix, by the recipe's last phase. Throws Error at the recipe
/// naming `shown`, the tensor, where its codes are not a function of the weight alone: stochastic
/// rounding, a Hadamard transform, a prescale, a delayed scale, noise.
[[nodiscard]] Operand trained_operand(const TrainedNumbers& trained, const ModelConfig& config,
                                      const ParameterSpec& spec, const std::string& shown);

/// Whether GEMMs read the weight in at least 16 bits, without a scale.
[[nodiscard]] bool is_wide(const Operand& operand);

/// A sentence on matrices that were wide in training, where there are any, of the first's operand:
/// "fprop's weight of A and 3 others is bf16: its codes are BF16 numbers". `type`: as what values
/// are written, "BF16".
[[nodiscard]] std::optional<std::string> note_of_wide(std::span<const std::string> tensors,
                                                      const Operand& operand,
                                                      std::string_view type);

/// `values` of the matrix in the operand's numbers, which are not FP32. Throws Error where the
/// weight is stored in these numbers and its values are not those of the codes that training had.
[[nodiscard]] NarrowMatrix trained_matrix(const TrainedNumbers& trained, const ModelConfig& config,
                                          const ParameterSpec& spec, std::span<const float> values,
                                          Threads threads);

}  // namespace ng
