#include "tools/tensor_input.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "io/tensor_files.h"

namespace ng {

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

MatrixSeries::MatrixSeries(std::vector<io::SafetensorsEntry> tensors, bool by_name)
    : tensors_(std::move(tensors)) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    std::vector<int64_t> shape = tensors_[i].shape;
    while (by_name && !shape.empty() && shape.size() < 3) shape.insert(shape.begin(), 1);
    const bool fits = shape.size() == 3 && tensors_[i].elements() > 0 &&
                      (i == 0 || (shape[1] == rows_ && shape[2] == cols_));
    if (!fits) {
      places_.clear();
      return;
    }
    rows_ = shape[1];
    cols_ = shape[2];
    for (int64_t n = 0; n < shape[0]; ++n)
      places_.push_back({.tensor = i, .first = n * rows_ * cols_});
  }
}

const io::SafetensorsEntry& MatrixSeries::tensor(int64_t index) const {
  return tensors_[places_[static_cast<size_t>(index)].tensor];
}

int64_t MatrixSeries::first(int64_t index) const {
  return places_[static_cast<size_t>(index)].first;
}

void MatrixSeries::read(int64_t index, std::span<float> values) const {
  io::FloatReader(tensor(index)).read(first(index), values);
}

TensorInput::TensorInput(const std::string& path, const TensorNames& names) : file_(path) {
  for (const auto& [name, words] : names)
    for (const std::string& word : words) chosen_[name].push_back(file_.at(word));
  const io::SafetensorsEntry& weight = floats("weight");
  std::vector<int64_t> shape = weight.shape;
  if (shape.size() == 1 && is_chosen("weight")) shape.insert(shape.begin(), 1);
  if (shape.size() != 2 || weight.elements() == 0)
    refuse(weight.name, "has shape " + shape_text(weight.shape),
           "a matrix with values; a vector goes in as (1, n)");
  rows_ = shape[0];
  cols_ = shape[1];
}

bool TensorInput::has(const std::string& name) const {
  return is_chosen(name) || file_.find(name) != nullptr;
}

std::vector<float> TensorInput::matrix(const std::string& name, int64_t rows, int64_t cols) const {
  const io::SafetensorsEntry& entry = floats(name);
  const bool is_row = rows == 1 && is_chosen(name) && entry.shape == std::vector<int64_t>{cols};
  const bool is_list = cols == 1 && entry.shape == std::vector<int64_t>{rows};
  if (!is_list && !is_row && entry.shape != std::vector<int64_t>{rows, cols})
    refuse(entry.name, "has shape " + shape_text(entry.shape), fmt::format("({}, {})", rows, cols));
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

const io::SafetensorsEntry& TensorInput::at(const std::string& name) const {
  if (const auto chosen = chosen_.find(name); chosen != chosen_.end())
    return chosen->second.front();
  if (const io::SafetensorsEntry* entry = file_.find(name)) return *entry;
  io::refuse_unknown_tensor(path(), name, file_.entries());
}

void TensorInput::require_floats(const io::SafetensorsEntry& entry) const {
  if (!io::is_float(entry)) refuse(entry.name, "dtype " + entry.dtype, "floating-point values");
}

const io::SafetensorsEntry& TensorInput::floats(const std::string& name) const {
  const io::SafetensorsEntry& entry = at(name);
  require_floats(entry);
  return entry;
}

MatrixSeries TensorInput::series(const std::string& name) const {
  const auto chosen = chosen_.find(name);
  std::vector<io::SafetensorsEntry> tensors = {at(name)};
  if (chosen != chosen_.end()) tensors = chosen->second;
  for (const io::SafetensorsEntry& tensor : tensors) require_floats(tensor);
  return {std::move(tensors), is_chosen(name)};
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
