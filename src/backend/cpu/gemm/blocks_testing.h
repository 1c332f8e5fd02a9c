// Operands with scales for tests of the GEMM, which compare it with the definition bit for bit.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/gemm_testing.h"
#include "backend/cpu/packed.h"
#include "backend/ref/gemm.h"
#include "backend/ref/operand.h"
#include "base/isa.h"
#include "base/sanitized_testing.h"
#include "math/bf16.h"
#include "math/round.h"

namespace ng::cpu {

// How the values of an operand are spread.
enum class Data {
  normal,
  uneven,   ///< block amplitudes 2^-20 ... 2^20, some blocks zero: few groups share a scale
  close,    ///< block amplitudes 2^0 ... 2^12: in few rows, groups of either kind
  extreme,  ///< amplitudes over all of FP32's exponents
  broken,   ///< as normal, with a few NaN and infinities
  huge,     ///< scales of 2^60: a block of four products of ±36, later one of eight
  largest,  ///< the largest elements, in one block of each group of four times 8; seed 2: also
            ///< negative, all of a row or half of every four
  small,    ///< scales from 2^-40 down, the same in all rows: products that become subnormal
};

// Seed 1 has the negative factors of the first block.
inline std::vector<float> huge_values(int64_t rows, int64_t k, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i) {
      if (i < 4) values[static_cast<size_t>(r * k + i)] = seed == 1 ? -0x6p60f : 0x6p60f;
      if (i >= 128 && i < 136) values[static_cast<size_t>(r * k + i)] = 0x6p60f;
    }
  return values;
}

inline std::vector<float> largest_values(int64_t rows, int64_t k, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(rows * k));
  for (int64_t i = 0; i < rows * k; ++i) {
    const int64_t block = i % k / 32;
    const float sign = seed == 2 && (i / k % 2 == 1) != (i % 4 >= 2 && i / k % 4 >= 2) ? -1 : 1;
    values[static_cast<size_t>(i)] = sign * 0x1.FCp2f * (block % 4 == block / 4 % 4 ? 8 : 1);
  }
  return values;
}

inline std::vector<float> values_of(Data data, int64_t rows, int64_t k, uint32_t seed) {
  if (data == Data::huge) return huge_values(rows, k, seed);
  if (data == Data::largest) return largest_values(rows, k, seed);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(rows * k));
  int exponent = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const int range = data == Data::close ? 6 : data == Data::uneven ? 20 : 120;
    if (i % 16 == 0) exponent = static_cast<int>(random() % (2 * range + 1)) - range;
    if (i % 16 == 0 && random() % 5 == 0 && data != Data::close) exponent = -1000;
    values[i] = normal(random);
    if (data == Data::small) exponent = -40 - static_cast<int>(i % static_cast<size_t>(k) / 32);
    if (data != Data::normal && data != Data::broken) values[i] = std::ldexp(values[i], exponent);
    if (data == Data::broken && random() % 97 == 0) values[i] = random() % 2 == 0 ? NAN : INFINITY;
  }
  return values;
}

// One operand prepared by the definition, and the same in the layout of the cpu backend.
struct Both {
  std::vector<float> values;
  std::vector<std::byte> ref_storage, cpu_storage;
  PackedOperand ref, cpu;

  Both(const OperandSpec& spec, std::vector<float> source_values)
      : values(std::move(source_values)) {
    const ConstView source{values.data(), spec.rows, spec.k, spec.k};
    ref_storage.resize(ref::operand_bytes(spec));
    ref = {
        .spec = spec, .source = source, .storage = ref_storage.data(), .bytes = ref_storage.size()};
    ref::prepare(ref, source, {});
    const PackedLayout layout = packed_layout(spec);
    cpu_storage.resize(layout.bytes + 64);
    const auto address = reinterpret_cast<uintptr_t>(cpu_storage.data());
    cpu = {.spec = spec,
           .source = source,
           .storage = cpu_storage.data() + (64 - address % 64),
           .bytes = layout.bytes};
    if (layout.bytes > 0) fill(layout);
  }

  void fill(const PackedLayout& layout) {
    const ref::OperandParts parts = ref::parts_of(ref);
    const int64_t k_padded = ref.spec.k_padded();
    for (int64_t i = 0; i < ref.spec.rows * k_padded; ++i) {
      const float value = parts.elements[i];
      if (layout.form == ElementForm::int8)
        put(layout.elements_at, layout.index(i / k_padded, i % k_padded),
            static_cast<int8_t>(value / layout.unit));
      else if (layout.form == ElementForm::bf16)
        put(layout.elements_at, i, static_cast<uint16_t>(float_bits(value) >> 16));
      else
        put(layout.elements_at, i, value);
    }
    for (int64_t r = 0; r < ref.spec.rows; ++r)
      for (int64_t b = 0; b < layout.blocks; ++b)
        put(layout.scales_at, r * layout.blocks + b,
            parts.scale_rows > 0 ? parts.scale(r, b * layout.block) : 1.0f);
    put(layout.tensor_at, 0, *parts.tensor_scales);
  }

  template <class T>
  void put(size_t at, int64_t index, T value) {
    std::memcpy(cpu.storage + at + static_cast<size_t>(index) * sizeof(T), &value, sizeof(T));
  }
};

inline Operand tile(std::string_view name, int rows, int cols) {
  Operand cast = operand_of(name);
  cast.block = {.kind = Block::Kind::tile, .rows = rows, .cols = cols};
  return cast;
}

struct Pair {
  std::string name;
  Operand a, b;
};

inline std::vector<Pair> same_format_pairs() {
  std::vector<Pair> pairs;
  for (const std::string_view name : operand_names())
    pairs.push_back({std::string(name), operand_of(name), operand_of(name)});
  return pairs;
}

inline std::vector<Pair> other_pairs() {
  const auto of = operand_of;
  return {{"mxfp4 x mxfp4 squares", of("mxfp4"), tile("mxfp4", 32, 32)},
          {"mxfp8_e4m3 x mxfp8_e5m2", of("mxfp8_e4m3"), of("mxfp8_e5m2")},
          {"mxfp8_e5m2 x mxfp4", of("mxfp8_e5m2"), of("mxfp4")},
          {"nvfp4 x nvfp4 squares", of("nvfp4"), tile("nvfp4", 16, 16)},
          {"nvfp4 x mxfp4", of("nvfp4"), of("mxfp4")},
          {"mxfp6_e2m3 x mxfp4", of("mxfp6_e2m3"), of("mxfp4")},
          {"mxint8 x mxfp4", of("mxint8"), of("mxfp4")},
          {"mxfp4 x mxint8", of("mxfp4"), of("mxint8")},
          {"mxint8 x mxfp6_e3m2", of("mxint8"), of("mxfp6_e3m2")},
          {"mxfp6_e3m2, blocks of 2 x mxfp4", tile("mxfp6_e3m2", 1, 2), of("mxfp4")},
          {"mxfp6_e2m3, blocks of 128 x 64", tile("mxfp6_e2m3", 1, 128), tile("mxfp6_e2m3", 1, 64)},
          {"mxfp6_e3m2, blocks of 2", tile("mxfp6_e3m2", 1, 2), tile("mxfp6_e3m2", 1, 2)},
          {"mxfp6_e3m2, blocks of 12", tile("mxfp6_e3m2", 1, 12), tile("mxfp6_e3m2", 1, 12)},
          {"mxfp6_e3m2 x mxint8, blocks of 12", tile("mxfp6_e3m2", 1, 12), tile("mxint8", 1, 12)},
          {"mxfp6_e3m2, blocks of 64", tile("mxfp6_e3m2", 1, 64), tile("mxfp6_e3m2", 1, 64)},
          {"mxfp6_e3m2, blocks of 128", tile("mxfp6_e3m2", 1, 128), tile("mxfp6_e3m2", 1, 128)},
          {"mxfp4, blocks of 12", tile("mxfp4", 1, 12), tile("mxfp4", 1, 12)},
          {"mxint8, blocks of 4 x 20", tile("mxint8", 1, 4), tile("mxint8", 1, 20)},
          {"mxfp6_e2m3, blocks of 48", tile("mxfp6_e2m3", 1, 48), tile("mxfp6_e2m3", 1, 48)},
          {"int4 blocks", tile("int4", 1, 32), tile("int4", 1, 32)},
          {"mxfp8_e5m2 x nvfp4", of("mxfp8_e5m2"), of("nvfp4")},
          {"mxfp4 x bf16", of("mxfp4"), of("bf16")},
          {"fp32 x nvfp4", of("fp32"), of("nvfp4")},
          {"fp8_e4m3 x mxfp6_e3m2", of("fp8_e4m3"), of("mxfp6_e3m2")},
          {"fp8 rows of 128 x squares", tile("fp8_e4m3", 1, 128), tile("fp8_e4m3", 128, 128)},
          {"fp8 32 x mxfp4", tile("fp8_e5m2", 1, 64), of("mxfp4")},
          {"fp8_e4m3 x fp8_e5m2", of("fp8_e4m3"), of("fp8_e5m2")},
          {"int8 x bf16", of("int8"), of("bf16")},
          {"int8 x int4", of("int8"), of("int4")},
          {"nvfp4 x int8 squares", of("nvfp4"), tile("int8", 16, 16)},
          {"int8 blocks", tile("int8", 1, 32), tile("int8", 1, 32)},
          {"blocks of 12", tile("fp8_e4m3", 1, 12), tile("fp8_e4m3", 1, 12)},
          {"fp32 x blocks of 12", of("fp32"), tile("fp8_e4m3", 1, 12)}};
}

inline int64_t multiple_of(const Operand& cast) {
  return cast.block.kind == Block::Kind::tile && !cast.is_unscaled() ? cast.block.cols : 1;
}

struct Shape {
  int64_t m, n, k;
};

inline OperandSpec spec_of(const Operand& cast, Side side, int64_t rows, int64_t k,
                           int64_t multiple) {
  return {.cast = cast, .side = side, .rows = rows, .k = k, .k_multiple = multiple, .hadamard = {}};
}

// The outputs as BF16, in rows with unused space around them, which stays as it is.
struct Bf16Outputs {
  std::vector<Bf16> memory;
  Rows<Bf16> rows;

  Bf16Outputs(const Shape& shape, const std::vector<float>& values)
      : memory(static_cast<size_t>(shape.m * (shape.n + 5) + 1), to_bf16(12345.0f)),
        rows{memory.data() + 1, shape.m, shape.n, shape.n + 5} {
    for (int64_t i = 0; i < shape.m * shape.n; ++i)
      rows.row(i / shape.n)[i % shape.n] = to_bf16(values[static_cast<size_t>(i)]);
  }
  Bf16Outputs(const Bf16Outputs&) = delete;
};

// A GEMM that writes BF16 onto `before` leaves `wanted`, rounded, and nothing else; on `tiles`, or
// those of the CPU if any.
inline void check_bf16(Workspace& workspace, Gemm op, const Shape& shape,
                       const std::vector<float>& before, const std::vector<float>& wanted,
                       const MatrixKernels* tiles = current_matrix_kernels()) {
  const Bf16Outputs y(shape, before), rounded(shape, wanted);
  op.y = y.rows;
  gemm(workspace, op, tiles);
  for (size_t i = 0; i < y.memory.size(); ++i)
    ASSERT_TRUE(same(widened(y.memory[i]), widened(rounded.memory[i])))
        << "as BF16 at " << i << " of memory: " << widened(y.memory[i]) << " is not "
        << widened(rounded.memory[i]);
}

inline void check_values(const Pair& pair, const Shape& shape, std::vector<float> left,
                         std::vector<float> right, Gemm out = {}) {
  if (is_left_out()) return;
  const int64_t multiple = std::lcm(multiple_of(pair.a), multiple_of(pair.b));
  const Both a(spec_of(pair.a, Side::left, shape.m, shape.k, multiple), std::move(left));
  const Both b(spec_of(pair.b, Side::right, shape.n, shape.k, multiple), std::move(right));
  std::vector<float> before = values_of(Data::normal, shape.m, shape.n, 3);
  for (float& y : before) y = round_to_bf16(y);  // the same where y is stored as BF16
  std::vector<float> wanted = before;
  out.y = {wanted.data(), shape.m, shape.n, shape.n};
  out.a = &a.ref;
  out.b = &b.ref;
  ref::perform(out);
  out.a = &a.cpu;
  out.b = &b.cpu;
  static Workspace workspaces[] = {Workspace(Threads{1}), Workspace(Threads{2}),
                                   Workspace(Threads{3})};  // kept: memory is slow to take
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    for (Workspace& workspace : workspaces) {
      std::vector<float> y = before;
      out.y = {y.data(), shape.m, shape.n, shape.n};
      gemm(workspace, out);
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_TRUE(same(y[i], wanted[i]))
            << pair.name << " on " << name_of(isa) << ", " << shape.m << "x" << shape.n << "x"
            << shape.k << " at " << i << ": " << y[i] << " is not " << wanted[i];
    }
    if (out.into == Into::carry) continue;  // in FP32 alone
    SCOPED_TRACE(
        fmt::format("{} on {}, {}x{}x{}", pair.name, name_of(isa), shape.m, shape.n, shape.k));
    ASSERT_NO_FATAL_FAILURE(check_bf16(workspaces[1], out, shape, before, wanted));
  }
  force_isa("auto");
  std::vector<float> y = before;
  out.y = {y.data(), shape.m, shape.n, shape.n};
  gemm(workspaces[1], out, &scalar_matrix_kernels());
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_TRUE(same(y[i], wanted[i]))
        << pair.name << " on scalar tiles, " << shape.m << "x" << shape.n << "x" << shape.k
        << " at " << i << ": " << y[i] << " is not " << wanted[i];
  if (out.into == Into::carry) return;
  SCOPED_TRACE("on scalar tiles");
  check_bf16(workspaces[1], out, shape, before, wanted, &scalar_matrix_kernels());
}

inline void check(const Pair& pair, const Shape& shape, Data data, const Gemm& out = {}) {
  SCOPED_TRACE(fmt::format("data {}", static_cast<int>(data)));
  check_values(pair, shape, values_of(data, shape.m, shape.k, 1),
               values_of(data, shape.n, shape.k, 2), out);
}

}  // namespace ng::cpu
