// What commands on a tensor of a file write: a file that says by which command it was made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "math/philox.h"
#include "recipe/recipe.h"

namespace ng {

/// Throws Error where `out` is `in` or the recipe, or anything but a file of before: one whose
/// metadata has the key `mark`. `what` that is: "an update".
void require_tensor_output(const std::string& out, const std::string& in, const Recipe& recipe,
                           const std::string& mark, const std::string& what);

/// The recipe and the draws, beside mark = made.
[[nodiscard]] std::map<std::string, std::string> tensor_metadata(const std::string& mark,
                                                                 const std::string& made,
                                                                 const Recipe& recipe,
                                                                 const RandomKey& key);

/// Tensors with their values, for one file in the order in which they are added.
class OutputTensors {
 public:
  /// FP32, to be filled before write().
  std::vector<float>& add(const std::string& name, std::vector<int64_t> shape);
  /// Of another dtype, as safetensors calls it; the values are copied.
  void add(const std::string& name, const char* dtype, std::vector<int64_t> shape,
           std::span<const std::byte> values);
  void write(const std::string& path, const std::map<std::string, std::string>& metadata = {});

 private:
  std::deque<std::vector<float>> floats_;  // of the tensors that have no data yet, in their order
  std::deque<std::vector<std::byte>> others_;
  std::vector<io::SafetensorsTensor> tensors_;
};

}  // namespace ng
