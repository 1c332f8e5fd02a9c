// Preparing operands on any backend, for the tests that compare them.
#pragma once

#include <numeric>

#include "conformance.h"

namespace ng::conformance {

/// Values over 30 binades, with zeros, whole zero blocks, ties and one large column.
inline Matrix spread(int64_t rows, int64_t cols, uint64_t seed, int64_t padding = 0) {
  Matrix x(rows, cols, padding, 1);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const auto index = static_cast<uint64_t>(r * cols + c);
      const PhiloxBlock random = draw({.seed = seed, .purpose = Purpose::data}, index);
      const int binade = static_cast<int>(random[1] % 30) - 24;
      float& value = x.at(r, c);
      value = std::ldexp(uniform_of(random), binade / (1 + static_cast<int>(r % 4)));
      if (index % 11 == 3) value = std::ldexp(1.25f, binade);
      if (index % 17 == 5 || (r % 5 == 3 && c / 32 % 2 == 1)) value = 0;
      if (c == 1) value *= 100;
    }
  return x;
}

inline int64_t multiple_of(const Operand& a, const Operand& b, int hadamard) {
  const auto block = [](const Operand& x) {
    return int64_t{x.block.kind == Block::Kind::tile ? x.block.cols : 1};
  };
  return std::lcm(std::lcm(block(a), block(b)), int64_t{std::max(hadamard, 1)});
}

inline Hadamard hadamard_of(int size) {
  return {.size = size, .signs = {0x9E3779B9u, 0x0F1E2D3Cu, 0xA5A5F00Fu, 0x12345678u}};
}

/// An emulated card takes one of so many operands: of a grid's values every two together.
constexpr Turns kOperands{.card_every = 3};

/// A prepared operand and its storage.
struct Prepared {
  PackedOperand packed;
  Buffer<std::byte> storage;
};

inline Prepared reserve(const Place& with, const OperandSpec& spec) {
  const std::vector<std::byte> zeros(with.backend.operand_bytes(spec));
  Prepared p = {{.spec = spec, .source = {}, .bytes = zeros.size()}, with.buffer(zeros)};
  p.packed.storage = p.storage.data();
  return p;
}

/// `source` must outlive the result.
inline Prepared prepare(const Place& with, const OperandSpec& spec, const Tensor& source,
                        const PrepareContext& context) {
  Prepared p = reserve(with, spec);
  with.execute(Prepare{.packed = &p.packed, .source = source, .context = context});
  return p;
}

/// Values and codes from a row on; codes are zeros where the element has more than 16 bits.
struct Unpacked {
  Matrix values, codes;
};
inline Unpacked unpack(const Place& with, const PackedOperand& packed, int64_t first, int64_t rows,
                       int64_t cols) {
  Tensor values = with.fp32(Matrix(rows, cols));
  Buffer<uint16_t> codes = with.buffer(std::vector<uint16_t>(static_cast<size_t>(rows * cols)));
  const bool has_codes = packed.spec.cast.element->bits <= 16;
  with.execute(Unpack{.packed = &packed,
                      .first_row = first,
                      .values = values,
                      .codes = has_codes ? codes.data() : nullptr});
  Matrix as_floats(rows, cols);
  const std::vector<uint16_t> all = codes.values();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < cols; ++k) as_floats.at(r, k) = all[static_cast<size_t>(r * cols + k)];
  return {values.values(), as_floats};
}
inline Unpacked unpack(const Place& with, const PackedOperand& packed) {
  return unpack(with, packed, 0, packed.spec.rows, packed.spec.k_padded());
}

/// A part is a part of the whole.
inline void expect_part_of(const Place& with, const PackedOperand& packed, const Unpacked& whole) {
  const int64_t first = packed.spec.rows / 3, cols = (packed.spec.k_padded() + 1) / 2;
  const Unpacked part = unpack(with, packed, first, packed.spec.rows - first, cols);
  for (int64_t r = 0; r < packed.spec.rows - first; ++r)
    for (int64_t k = 0; k < cols; ++k) {
      EXPECT_EQ(float_bits(part.values.at(r, k)), float_bits(whole.values.at(first + r, k)))
          << r << ", " << k;
      EXPECT_EQ(part.codes.at(r, k), whole.codes.at(first + r, k)) << r << ", " << k;
    }
}

inline Results unpacked(const Place& with, OperandSpec spec, const Matrix& source,
                        PrepareContext context) {
  spec.signed_zeros = true;
  Buffer<OperandStats> stats = with.buffer(std::vector<OperandStats>(1));
  context.stats = stats.data();
  const Tensor x = with.activation(source);
  const Prepared p = prepare(with, spec, x, context);
  const Unpacked all = unpack(with, p.packed);
  expect_part_of(with, p.packed, all);
  const OperandStats s = stats.values().front();
  std::vector<float> counts;
  for (const uint64_t count : {s.values, s.saturated, s.flushed, s.nan, s.inf})
    counts.push_back(static_cast<float>(count));
  return {{"values", all.values}, {"codes", all.codes}, {"counts", Matrix::row(counts)}};
}

/// y + x ⊙ the factors of an operand's rounding, which passes gradients on as dge has it unless its
/// cast says otherwise; stored as `with` stores activations.
inline Matrix passed(const Place& with, OperandSpec spec, const Tensor& source,
                     const PrepareContext& context) {
  if (spec.cast.gradient == RoundingGradient::straight) spec.cast.gradient = RoundingGradient::dge;
  const Tensor x = with.fp32(spread(spec.rows, spec.k_padded(), 71, 3));
  Tensor y = with.activation(spread(spec.rows, spec.k_padded(), 72, 1));
  with.execute(RoundingBackward{
      .y = y, .x = x, .spec = spec, .source = source, .context = context, .into = Into::add});
  return y.values();
}

inline PrepareContext drawing(Purpose purpose = Purpose::dgrad_grad) {
  PrepareContext context;
  context.key = {.seed = 77, .tensor = 5, .step = 3, .purpose = purpose, .micro = 2};
  context.first_row = 4;
  return context;
}

struct Orientation {
  Contract contract;
  Side side;
};
constexpr Orientation kOrientations[] = {{Contract::cols, Side::left},
                                         {Contract::cols, Side::right},
                                         {Contract::rows, Side::left},
                                         {Contract::rows, Side::right}};

inline OperandSpec spec_of(const Operand& cast, const Orientation& o, int64_t rows, int64_t k,
                           int hadamard, int64_t multiple) {
  return {.cast = cast,
          .contract = o.contract,
          .side = o.side,
          .rows = rows,
          .k = k,
          .k_multiple = multiple,
          .hadamard = hadamard_of(hadamard)};
}

inline Matrix source_of(const OperandSpec& spec, uint64_t seed) {
  const bool straight = spec.contract == Contract::cols;
  return straight ? spread(spec.rows, spec.k, seed, 3) : spread(spec.k, spec.rows, seed, 3);
}

}  // namespace ng::conformance
