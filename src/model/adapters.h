// The adapters of a model: their parameters, first values, and weights with them merged in.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/model.h"
#include "nn/parameter.h"

namespace ng {

/// Throws Error{place, key, ...} where a pattern of config.lora means no layer, or one that is
/// trained whole has an adapter; `key` is its key there: "lora.targets", and `place` says where
/// that was given.
void validate_lora(const ModelConfig& config,
                   const std::function<std::string(const std::string& key)>& place);

/// A and B of every layer that config.lora means, in the order of `table`, which are the parameters
/// of the architecture. Their hf_name is PEFT's.
[[nodiscard]] std::vector<ParameterSpec> adapter_parameters(const ModelConfig& config,
                                                            std::span<const ParameterSpec> table);

/// First values of a matrix A, row by row: uniform within 1/√in of 0, which is Kaiming's with
/// a = √5 as PEFT calls it, by the draws of purpose 13.
[[nodiscard]] std::vector<float> first_adapter_values(const ParameterSpec& spec, uint64_t seed,
                                                      uint32_t tensor);

/// row + scale·b·a, a (rank, columns of the row) and b (rank) a row of B, in FP64.
[[nodiscard]] std::vector<double> adapted_row(std::span<const float> row, std::span<const float> b,
                                              std::span<const float> a, double scale);

/// row = adapted_row(row, b, a, scale), each value rounded once.
void add_adapter(std::span<float> row, std::span<const float> b, std::span<const float> a,
                 double scale);

/// The weights of a model with its adapters merged in: W + s·B·A.
class MergedWeights {
 public:
  MergedWeights(const Run& run, const Model& model);
  /// Row `row` of parameter `index` of the architecture; the sum is made in FP64, rounded once.
  void read_row(size_t index, int64_t row, std::span<float> values);

 private:
  void take_adapter(size_t index);

  const Run& run_;
  const Model& model_;
  size_t index_ = SIZE_MAX;   // of the parameter whose adapter is here
  std::vector<float> a_, b_;  // empty: it has none
};

}  // namespace ng
