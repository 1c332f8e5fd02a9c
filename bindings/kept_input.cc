#include "kept_input.h"

#include <cstring>

#include "format/codec.h"
#include "format/packing.h"
#include "numbers/narrow_matrix.h"
#include "numbers/unpack.h"

namespace ng::python {
namespace {

constexpr int64_t kLevelBytes = sizeof(float);

NarrowMatrix matrix_of(const Operand& cast, int64_t rows, int64_t cols) {
  NarrowMatrix matrix;
  matrix.cast = cast;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.grid = scale_grid(cast, Contract::cols, rows, cols);
  return matrix;
}

}  // namespace

KeptInput::Size KeptInput::size() const {
  const ScaleGrid one = scale_grid(cast_, Contract::cols, 1, cols_);
  const int64_t scales = one.size() * scale_bits(cast_) / 8;
  Size size{.bits_of_row = cols_ * cast_.element->bits};
  if (one.size() == 0) return size;
  size.others = kLevelBytes;
  if (cast_.block.kind == Block::Kind::tensor) {
    size.others += scales;
    return size;
  }
  size.rows_of_block = one.block_rows;
  size.scales = scales;
  return size;
}

int64_t KeptInput::bytes(int64_t tokens) const {
  const Size of = size();
  const int64_t blocks = (tokens + of.rows_of_block - 1) / of.rows_of_block;
  return (tokens * of.bits_of_row + 7) / 8 + blocks * of.scales + of.others;
}

void KeptInput::write(const PackedOperand& packed, std::span<uint8_t> kept, Threads threads) const {
  NarrowMatrix made = matrix_of(cast_, packed.spec.rows, cols_);
  NG_CHECK(std::ssize(kept) == bytes(made.rows), kept.size(), made.rows);
  unpack_operand(packed, code_table(*cast_.element), made, threads);
  const int bits = cast_.element->bits;
  const size_t codes = packed_bytes(made.rows * made.cols, bits);
  pack_codes(made.codes, bits, kept.first(codes));
  if (made.grid.size() == 0) return;
  uint8_t* to = kept.data() + codes;
  std::memcpy(to, &made.tensor_scale, kLevelBytes);
  to += kLevelBytes;
  if (has_scale_codes(cast_))
    std::memcpy(to, made.scale_codes.data(), made.scale_codes.size());
  else
    std::memcpy(to, made.scales.data(), made.scales.size() * sizeof(float));
}

void KeptInput::read(std::span<const uint8_t> kept, Rows<float> values, Threads threads) const {
  NarrowMatrix made = matrix_of(cast_, values.rows, cols_);
  NG_CHECK(std::ssize(kept) == bytes(made.rows), kept.size(), made.rows);
  const int bits = cast_.element->bits;
  const size_t codes = packed_bytes(made.rows * made.cols, bits);
  made.codes.resize(static_cast<size_t>(made.rows * made.cols));
  unpack_codes(kept.first(codes), bits, made.codes);
  if (made.grid.size() > 0) {
    const uint8_t* from = kept.data() + codes;
    std::memcpy(&made.tensor_scale, from, kLevelBytes);
    from += kLevelBytes;
    made.scales.resize(static_cast<size_t>(made.grid.size()));
    if (has_scale_codes(cast_))
      for (float& scale : made.scales) scale = decode(scale_element(cast_), *from++);
    else
      std::memcpy(made.scales.data(), from, made.scales.size() * sizeof(float));
  }
  dequantize(made, values, threads);
  if (cast_.prescale == 1) return;
  parallel_for(threads, values.rows, [&](int64_t row, int) {
    for (float& value : std::span(values.row(row), static_cast<size_t>(values.cols)))
      value /= cast_.prescale;
  });
}

}  // namespace ng::python
