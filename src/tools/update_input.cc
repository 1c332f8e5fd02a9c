#include "tools/update_input.h"

#include <algorithm>

#include "base/error.h"
#include "io/tensor_files.h"

namespace ng {

UpdateInput::UpdateInput(const std::string& path, const TensorNames& names)
    : TensorInput(path, names), has_direction_(has("direction")), moves_(moves()) {}

MatrixSeries UpdateInput::moves() const {
  if (has_direction_ == has("grad"))
    refuse(has_direction_ ? "direction" : "grad", has_direction_ ? "is beside grad" : "is missing",
           has_direction_ || !is_by_name()
               ? "grad (steps, r, c), or direction (r, c), one of both"
               : "--grad NAME of a tensor in the shape of the weight, or --direction NAME");
  const std::string mover = has_direction_ ? "direction" : "grad";
  const io::SafetensorsEntry& first = floats(mover);
  const bool is_matrix = first.shape == at("weight").shape;
  MatrixSeries moves = has_direction_ && is_matrix ? MatrixSeries({first}, true) : series(mover);
  const bool fits = moves.rows() == rows() && moves.cols() == cols() && moves.count() > 0;
  if (!fits || (has_direction_ && !is_matrix))
    refuse(first.name, "has shape " + shape_text(first.shape),
           has_direction_ ? shape_text(at("weight").shape) + ", the weight's"
                          : fmt::format("(steps, {}, {}), the weight's", rows(), cols()));
  return moves;
}

void UpdateInput::read_step(int64_t index, std::span<float> values) const {
  const int64_t at = has_direction_ ? 0 : index;
  moves_.read(at, values);
  check_finite(moves_.tensor(at), moves_.first(at), values);
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
