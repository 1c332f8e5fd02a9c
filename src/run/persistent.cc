#include "run/persistent.h"

#include <algorithm>

namespace ng {
namespace {

size_t value_bytes(const PersistentSpec& spec) {
  return static_cast<size_t>(spec.rows) *
         bytes_of(*spec.element, tight_stride(*spec.element, spec.cols));
}

}  // namespace

size_t persistent_bytes(size_t bytes) { return std::max<size_t>((bytes + 63) / 64 * 64, 64); }

std::vector<PersistentSpec> StoredSpec::rows() const {
  std::vector<PersistentSpec> rows = {spec};
  rows[0].element = cast.element;
  if (cast.parts == 2) rows.emplace_back(rows[0]).name += ".low";
  if (cast.is_unscaled()) return rows;
  const auto add = [&](const char* ending, const ElementFormat& element, const ScaleShape& shape,
                       bool is_shared) {
    PersistentSpec& scales = rows.emplace_back(spec);
    scales.name += ending;
    scales.element = &element;
    scales.rows = shape.rows;
    scales.cols = shape.cols;
    scales.is_shared = is_shared;
    if (is_shared || shape.rows * shape.cols == 1) scales.cut = {};  // one for all parts
    if (is_shared || spec.whole_rows == 0) return;
    scales.first_row = scale_shape(cast, spec.first_row, spec.cols).rows;
    scales.whole_rows = scale_shape(cast, spec.whole_rows, spec.cols).rows;
  };
  // A name of its own where codes are no elements: whoever reads files would multiply them.
  add(cast.map == CodeMap::none ? ".scale" : ".map_scale", scale_element(cast),
      scale_shape(cast, spec.rows, spec.cols), cast.block.kind == Block::Kind::tensor);
  if (cast.tensor_scale != ScaleKind::none) add(".tensor_scale", fp32_format(), {1, 1}, true);
  if (cast.expand)
    for (const char* ending : {".power", ".center"})
      add(ending, fp32_format(), scale_shape(cast, spec.rows, spec.cols), false);
  return rows;
}

size_t StoredSpec::bytes() const {
  size_t bytes = 0;
  for (const PersistentSpec& row : rows()) bytes += persistent_bytes(value_bytes(row));
  return bytes;
}

StoredSpec StoredSpec::part(int64_t first, int64_t rows, int64_t of) const {
  StoredSpec mine = *this;
  if (rows == of) return mine;
  mine.spec.rows = (spec.rows * rows + of - 1) / of;
  mine.spec.first_row = spec.rows * first / of;
  mine.spec.whole_rows = spec.rows;
  return mine;
}

}  // namespace ng
