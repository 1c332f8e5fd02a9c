#include "tools/operand_record.h"

#include <algorithm>

#include "backend/backend_memory.h"
#include "numbers/errors.h"
#include "numbers/unpack.h"
#include "run/transfer.h"
#include "train/operand_error.h"

namespace ng {
namespace {

template <class Value>
std::vector<Value> taken_from(const Backend& backend, const BackendMemory& memory, size_t count) {
  std::vector<Value> values(count);
  backend.download(values.data(), memory.data(), count * sizeof(Value));
  return values;
}

double sqnr_of(Backend& backend, const PackedOperand& packed, const OperandOrigin& origin,
               const std::vector<float>& narrow) {
  const OperandSpec& spec = packed.spec;
  const int64_t cols = spec.k_padded();
  std::vector<float> exact(static_cast<size_t>(kOperandRows * cols)), undone(exact.size());
  ErrorSums sums;
  for (int64_t first = 0; first < spec.rows; first += kOperandRows) {
    const int64_t rows = std::min(kOperandRows, spec.rows - first);
    const auto count = static_cast<size_t>(rows * cols);
    read_exact_rows(backend, packed, origin, first, {exact.data(), rows, cols, cols});
    for (size_t i = 0; i < count; ++i)
      undone[i] = narrow[static_cast<size_t>(first * cols) + i] / spec.cast.prescale;
    sums.add(std::span<const float>(exact).first(count),
             std::span<const float>(undone).first(count));
  }
  return sums.metrics().sqnr_db;
}

}  // namespace

std::vector<uint8_t> RecordedOperand::scale_codes() const {
  std::vector<uint8_t> bytes;
  for (const float scale : scales) bytes.push_back(scale_code(spec.cast.scale, scale));
  return bytes;
}

void OperandRecord::operand(const PackedOperand& packed, const OperandOrigin& origin,
                            std::string_view /*layer*/, std::string_view role) {
  Backend& backend = run_.backend();
  const OperandSpec& spec = packed.spec;
  const auto count = static_cast<size_t>(spec.rows * spec.k_padded());
  RecordedOperand made{.role = std::string(role),
                       .spec = spec,
                       .codes = {},
                       .shape = scale_shape(spec.cast, spec.rows, spec.k_padded()),
                       .scales = {},
                       .levels = tensor_scale_shape(spec.cast, spec.rows, spec.k_padded()),
                       .tensor_scales = {},
                       .values = {}};
  const auto blocks = static_cast<size_t>(made.shape.rows * made.shape.cols);
  const TemporaryTensor values(backend, spec.rows, spec.k_padded());
  const auto levels = static_cast<size_t>(made.levels.rows * made.levels.cols);
  const BackendMemory codes(backend, count * sizeof(uint16_t)),
      scales(backend, blocks * sizeof(float)), tensor_scales(backend, levels * sizeof(float));
  const bool has_codes = spec.cast.element->bits <= 16;
  backend.execute(Unpack{.packed = &packed,
                         .first_row = 0,
                         .values = values.view(),
                         .codes = has_codes ? reinterpret_cast<uint16_t*>(codes.data()) : nullptr,
                         .scales = blocks > 0 ? scales.floats() : nullptr,
                         .tensor_scale = blocks > 0 ? tensor_scales.floats() : nullptr});
  made.values = values.download();
  if (has_codes) made.codes = taken_from<uint16_t>(backend, codes, count);
  if (blocks > 0) {
    made.scales = taken_from<float>(backend, scales, blocks);
    made.tensor_scales = taken_from<float>(backend, tensor_scales, levels);
  }
  made.sqnr_db = sqnr_of(backend, packed, origin, made.values);
  operands_.push_back(std::move(made));
}

}  // namespace ng
