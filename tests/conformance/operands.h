// Preparing operands on any backend, for the tests that compare them.
#pragma once

#include <bit>
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

/// A prepared operand and its storage.
struct Prepared {
  PackedOperand packed;
  std::vector<double> storage;  // double: aligned to 16 at least
};

inline Prepared reserve(const Backend& b, const OperandSpec& spec) {
  Prepared p;
  p.packed.spec = spec;
  p.packed.bytes = b.operand_bytes(spec);
  p.storage.assign(p.packed.bytes / sizeof(double) + 16, 0.0);
  const auto address = reinterpret_cast<uintptr_t>(p.storage.data());
  p.packed.storage = reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
  return p;
}

inline Prepared prepare(Backend& b, const OperandSpec& spec, const Matrix& source,
                        const PrepareContext& context) {
  Prepared p = reserve(b, spec);
  b.prepare(p.packed, source.view(), context);
  return p;
}

/// unpack_rows gives a part of what unpack gave.
inline void expect_part_of(const Backend& b, const PackedOperand& packed, Matrix& values) {
  const int64_t first = packed.spec.rows / 3, cols = (packed.spec.k_padded() + 1) / 2;
  Matrix part(packed.spec.rows - first, cols);
  b.unpack_rows(packed, first, part.view());
  for (int64_t r = 0; r < packed.spec.rows - first; ++r)
    for (int64_t k = 0; k < cols; ++k)
      EXPECT_EQ(std::bit_cast<uint32_t>(part.at(r, k)),
                std::bit_cast<uint32_t>(values.at(first + r, k)))
          << r << ", " << k;
}

inline Results unpacked(Backend& b, OperandSpec spec, const Matrix& source,
                        PrepareContext context) {
  spec.signed_zeros = true;
  OperandStats stats;
  context.stats = &stats;
  const Prepared p = prepare(b, spec, source, context);
  Matrix values(spec.rows, spec.k_padded());
  Matrix codes(spec.rows, spec.k_padded());
  std::vector<uint16_t> raw(static_cast<size_t>(spec.rows * spec.k_padded()));
  const bool has_codes = spec.cast.element->bits <= 16;
  b.unpack(p.packed, values.view(), has_codes ? raw.data() : nullptr);
  expect_part_of(b, p.packed, values);
  for (size_t i = 0; i < raw.size(); ++i)
    codes.at(static_cast<int64_t>(i) / spec.k_padded(), static_cast<int64_t>(i) % spec.k_padded()) =
        raw[i];
  Matrix counts(1, 5);
  const uint64_t all[] = {stats.values, stats.saturated, stats.flushed, stats.nan, stats.inf};
  for (int64_t i = 0; i < 5; ++i) counts.at(0, i) = static_cast<float>(all[i]);
  return {{"values", values}, {"codes", codes}, {"counts", counts}};
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
