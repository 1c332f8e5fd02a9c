#include "tools/tensor_input.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "io/hf/coded_file.h"
#include "io/tensor_files.h"

namespace ng {

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

TensorInput::TensorInput(const std::string& path) : file_(io::open_decoded(path)) {
  const io::SafetensorsEntry& weight = floats("weight");
  if (weight.shape.size() != 2 || weight.elements() == 0)
    refuse("weight", "has shape " + shape_text(weight.shape),
           "a matrix with values; a vector goes in as (1, n)");
  rows_ = weight.shape[0];
  cols_ = weight.shape[1];
}

std::vector<float> TensorInput::matrix(const std::string& name, int64_t rows, int64_t cols) const {
  const io::SafetensorsEntry& entry = floats(name);
  const bool is_list = cols == 1 && entry.shape == std::vector<int64_t>{rows};
  if (!is_list && entry.shape != std::vector<int64_t>{rows, cols})
    refuse(name, "has shape " + shape_text(entry.shape), fmt::format("({}, {})", rows, cols));
  std::vector<float> values = io::to_floats(entry);
  check_finite(entry, 0, values);
  return values;
}

std::vector<std::string> TensorInput::names_with(std::string_view prefix) const {
  std::vector<std::string> names;
  for (const io::SafetensorsEntry& entry : file_.entries())
    if (entry.name.starts_with(prefix)) names.push_back(entry.name);
  return names;
}

void TensorInput::refuse(const std::string& tensor, const std::string& problem,
                         const std::string& remedy) const {
  throw Error({path(), tensor, problem, remedy});
}

const io::SafetensorsEntry& TensorInput::floats(const std::string& name) const {
  const io::SafetensorsEntry& entry = file_.at(name);
  if (!io::is_float(entry)) refuse(name, "dtype " + entry.dtype, "floating-point values");
  return entry;
}

// What is not finite moves nothing in training: the step is skipped.
void TensorInput::check_finite(const io::SafetensorsEntry& entry, int64_t first,
                               std::span<const float> values) const {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return;
  int64_t place = first + (bad - values.begin());
  std::vector<int64_t> at(entry.shape.size());
  for (size_t d = at.size(); d-- > 0; place /= entry.shape[d]) at[d] = place % entry.shape[d];
  refuse(entry.name, fmt::format("{} at {}", *bad, shape_text(at)), "finite values");
}

}  // namespace ng
