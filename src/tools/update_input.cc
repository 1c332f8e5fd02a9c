#include "tools/update_input.h"

#include <algorithm>

#include "base/error.h"
#include "io/tensor_files.h"

namespace ng {

UpdateInput::UpdateInput(const std::string& path) : TensorInput(path) {
  const std::vector<int64_t>& shape = at("weight").shape;
  has_direction_ = has("direction");
  if (has_direction_ == has("grad"))
    refuse(has_direction_ ? "direction" : "grad", has_direction_ ? "is beside grad" : "is missing",
           "grad (steps, r, c), or direction (r, c), one of both");
  const std::string mover = has_direction_ ? "direction" : "grad";
  const io::SafetensorsEntry& moves = floats(mover);
  std::vector<int64_t> wanted = shape;
  if (!has_direction_) wanted.insert(wanted.begin(), moves.shape.empty() ? 1 : moves.shape[0]);
  if (moves.shape != wanted || moves.elements() == 0)
    refuse(mover, "has shape " + shape_text(moves.shape),
           has_direction_ ? shape_text(shape) + ", the weight's"
                          : fmt::format("(steps, {}, {}), the weight's", rows(), cols()));
  gradients_ = has_direction_ ? 0 : moves.shape[0];
}

void UpdateInput::read_step(int64_t index, std::span<float> values) const {
  const io::SafetensorsEntry& moves = at(has_direction_ ? "direction" : "grad");
  const int64_t first = has_direction_ ? 0 : index * rows() * cols();
  io::FloatReader(moves).read(first, values);
  check_finite(moves, first, values);
}

std::vector<float> UpdateInput::scales(const std::string& name, int64_t count) const {
  const io::SafetensorsEntry& stored = at(name);
  if (stored.dtype != "F32")
    refuse(name, "dtype " + stored.dtype, "F32: what elements are multiplied by");
  if (stored.elements() != count)
    refuse(name, "has shape " + shape_text(stored.shape),
           fmt::format("as many scales as the recipe's storage has, {}", count));
  std::vector<float> values = io::to_floats(stored);
  check_finite(stored, 0, values);
  return values;
}

}  // namespace ng
