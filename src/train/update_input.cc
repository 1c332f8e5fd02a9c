#include "train/update_input.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "io/tensor_files.h"

namespace ng {
namespace {

std::string text_of(const std::vector<int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

}  // namespace

UpdateInput::UpdateInput(const std::string& path) : file_(path) {
  const io::SafetensorsEntry& weight = floats("weight");
  if (weight.shape.size() != 2 || weight.elements() == 0)
    refuse("weight", "has shape " + text_of(weight.shape),
           "a matrix with values; a vector goes in as (1, n)");
  rows_ = weight.shape[0];
  cols_ = weight.shape[1];
  has_direction_ = has("direction");
  if (has_direction_ == has("grad"))
    refuse(has_direction_ ? "direction" : "grad", has_direction_ ? "is beside grad" : "is missing",
           "grad (steps, r, c), or direction (r, c), one of both");
  const std::string mover = has_direction_ ? "direction" : "grad";
  const io::SafetensorsEntry& moves = floats(mover);
  std::vector<int64_t> wanted = weight.shape;
  if (!has_direction_) wanted.insert(wanted.begin(), moves.shape.empty() ? 1 : moves.shape[0]);
  if (moves.shape != wanted || moves.elements() == 0)
    refuse(mover, "has shape " + text_of(moves.shape),
           has_direction_ ? text_of(weight.shape) + ", the weight's"
                          : fmt::format("(steps, {}, {}), the weight's", rows_, cols_));
  gradients_ = has_direction_ ? 0 : moves.shape[0];
}

std::vector<float> UpdateInput::weight() const { return matrix("weight", rows_, cols_); }

void UpdateInput::read_step(int64_t index, std::span<float> values) const {
  const io::SafetensorsEntry& entry = file_.at(has_direction_ ? "direction" : "grad");
  const int64_t first = has_direction_ ? 0 : index * rows_ * cols_;
  io::FloatReader(entry).read(first, values);
  check_finite(entry, first, values);
}

std::vector<float> UpdateInput::matrix(const std::string& name, int64_t rows, int64_t cols) const {
  const io::SafetensorsEntry& entry = floats(name);
  const bool is_list = cols == 1 && entry.shape == std::vector<int64_t>{rows};
  if (!is_list && entry.shape != std::vector<int64_t>{rows, cols})
    refuse(name, "has shape " + text_of(entry.shape), fmt::format("({}, {})", rows, cols));
  std::vector<float> values = io::to_floats(entry);
  check_finite(entry, 0, values);
  return values;
}

std::vector<float> UpdateInput::scales(const std::string& name, int64_t count) const {
  const io::SafetensorsEntry& entry = file_.at(name);
  if (entry.dtype != "F32")
    refuse(name, "dtype " + entry.dtype, "F32: what elements are multiplied by");
  if (entry.elements() != count)
    refuse(name, "has shape " + text_of(entry.shape),
           fmt::format("as many scales as the recipe's storage has, {}", count));
  std::vector<float> values = io::to_floats(entry);
  check_finite(entry, 0, values);
  return values;
}

std::vector<std::string> UpdateInput::names_with(std::string_view prefix) const {
  std::vector<std::string> names;
  for (const io::SafetensorsEntry& entry : file_.entries())
    if (entry.name.starts_with(prefix)) names.push_back(entry.name);
  return names;
}

void UpdateInput::refuse(const std::string& tensor, const std::string& problem,
                         const std::string& remedy) const {
  throw Error({.place = path(), .key = tensor, .problem = problem, .remedy = remedy});
}

const io::SafetensorsEntry& UpdateInput::floats(const std::string& name) const {
  const io::SafetensorsEntry& entry = file_.at(name);
  if (!io::is_float(entry)) refuse(name, "dtype " + entry.dtype, "floating-point values");
  return entry;
}

// What is not finite moves nothing in training: the step is skipped.
void UpdateInput::check_finite(const io::SafetensorsEntry& entry, int64_t first,
                               std::span<const float> values) const {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return;
  int64_t place = first + (bad - values.begin());
  std::vector<int64_t> at(entry.shape.size());
  for (size_t d = at.size(); d-- > 0; place /= entry.shape[d]) at[d] = place % entry.shape[d];
  refuse(entry.name, fmt::format("{} at {}", *bad, text_of(at)), "finite values");
}

}  // namespace ng
