// The quantizer beside the definition, bit for bit: codes, values, counters and histories.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "backend/cpu/quantize/quantize.h"
#include "backend/ref/operand.h"
#include "base/isa.h"
#include "base/sanitized_testing.h"
#include "format/codec.h"
#include "math/bf16.h"
#include "math/round.h"

namespace ng {

/// A source with room around it, so that reads and writes outside show.
struct Source {
  std::vector<float> memory;
  std::vector<Bf16> halves;  ///< the same values, where they are stored as BF16
  ConstView view;            ///< FP32
  ConstView stored;          ///< of these values, as they are stored
};

enum class Data { normal, zeros, tiny, huge, nonfinite };

inline float sample(Data data, std::mt19937& random, int64_t row, int64_t col) {
  std::normal_distribution<float> normal;
  const float x = normal(random) * std::exp2(static_cast<float>((row * 7 + col / 16 * 3) % 9 - 4));
  switch (data) {
    case Data::zeros:
      return (row / 3 + col / 24) % 3 == 0 ? std::copysign(0.0f, x) : x;
    case Data::tiny:
      return x * std::exp2(-120.0f - static_cast<float>((row + col / 8) % 26));
    case Data::huge:
      return std::clamp(x, -3.9f, 3.9f) * 0x1p126f * (col % 3 == 0 ? 1e-8f : 1.0f);
    case Data::nonfinite: {
      const uint32_t dice = random() % 97;
      if (dice == 0) return std::numeric_limits<float>::quiet_NaN();
      if (dice == 2) return std::numeric_limits<float>::signaling_NaN();
      if (dice == 1) return -std::numeric_limits<float>::infinity();
      return x;
    }
    default:
      return random() % 16 == 0 ? std::ldexp(static_cast<float>(random() % 33), -4) : x;
  }
}

enum class Storage { fp32, bf16 };

inline Source make_source(Data data, int64_t rows, int64_t cols, int64_t stride, Storage storage) {
  Source source;
  source.memory.assign(static_cast<size_t>(rows * stride + 5), 1e30f);
  std::mt19937 random(static_cast<uint32_t>(rows * 131 + cols));
  float* first = source.memory.data() + 3;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) first[r * stride + c] = sample(data, random, r, c);
  source.stored = source.view = {first, rows, cols, stride};
  if (storage == Storage::fp32) return source;
  for (float& x : source.memory) {
    source.halves.push_back(to_bf16(x));
    x = widened(source.halves.back());
  }
  source.stored = {source.halves.data() + 3, rows, cols, stride};
  return source;
}

/// Everything a prepared operand tells.
struct Result {
  std::vector<float> values;
  std::vector<uint16_t> codes;
  OperandStats stats;
  std::vector<float> history;
};

template <class DoPrepare, class DoUnpack>
Result result_of(const OperandSpec& spec, size_t bytes, const ConstView& source,
                 const DoPrepare& prepare, const DoUnpack& unpack) {
  Result result;
  result.history.assign(4, 0.0f);
  result.history[0] = 0.25f;
  float encode_scale = 3.0f;
  std::vector<std::byte> memory(bytes + 64, std::byte{0x5A});
  auto address = reinterpret_cast<uintptr_t>(memory.data());
  address = (address + 63) / 64 * 64;
  PackedOperand packed{.spec = spec, .source = {}, .storage = nullptr, .bytes = bytes};
  packed.storage = reinterpret_cast<std::byte*>(address);
  PrepareContext context;
  context.key = {.seed = 99, .tensor = 5, .step = 7, .purpose = Purpose::wgrad_grad, .micro = 2};
  context.first_row = 40;
  context.delayed = {&encode_scale, result.history.data()};
  context.stats = &result.stats;
  prepare(Prepare{.packed = &packed, .source = source, .context = context});
  result.values.resize(static_cast<size_t>(spec.rows * spec.k_padded()));
  result.codes.resize(result.values.size());
  const bool has_codes = spec.cast.element->bits <= 16;
  unpack(Unpack{.packed = &packed,
                .values = {result.values.data(), spec.rows, spec.k_padded(), spec.k_padded()},
                .codes = has_codes ? result.codes.data() : nullptr});
  return result;
}

inline Result by_definition(const OperandSpec& spec, const ConstView& source) {
  return result_of(
      spec, ref::operand_bytes(spec), source, [](const Prepare& op) { ref::perform(op); },
      [](const Unpack& op) { ref::perform(op); });
}

inline Result by_kernels(cpu::Workspace& workspace, const OperandSpec& spec,
                         const ConstView& source) {
  return result_of(
      spec, cpu::operand_bytes(spec), source,
      [&](const Prepare& op) { cpu::prepare(workspace, op); },
      [&](const Unpack& op) { cpu::unpack(workspace.threads(), op); });
}

inline bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || float_bits(a) == float_bits(b);
}

/// `any_zero`: a NaN that went through a transform has no meaningful sign, nor has the zero that
/// NVFP4 makes of it under a zero scale.
inline testing::AssertionResult equal(const Result& got, const Result& want, int64_t cols,
                                      bool any_zero) {
  for (size_t i = 0; i < want.values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (any_zero && got.values[i] == 0 && want.values[i] == 0) continue;
    if (got.codes[i] != want.codes[i] || !same_bits(got.values[i], want.values[i]))
      return testing::AssertionFailure() << "row " << at / cols << " col " << at % cols << ": code "
                                         << got.codes[i] << " value " << got.values[i]
                                         << ", expected " << want.codes[i] << " " << want.values[i];
  }
  const OperandStats& g = got.stats;
  const OperandStats& w = want.stats;
  if (g.values != w.values || g.saturated != w.saturated || g.flushed != w.flushed ||
      g.nan != w.nan || g.inf != w.inf)
    return testing::AssertionFailure()
           << "values " << g.values << "/" << w.values << " saturated " << g.saturated << "/"
           << w.saturated << " flushed " << g.flushed << "/" << w.flushed << " nan " << g.nan << "/"
           << w.nan << " inf " << g.inf << "/" << w.inf;
  if (!std::equal(got.history.begin(), got.history.end(), want.history.begin(), same_bits))
    return testing::AssertionFailure() << "history " << got.history[0] << "/" << want.history[0];
  return testing::AssertionSuccess();
}

/// As an operand tells it that does not keep the signs of its elements' zeros.
inline Result without_zero_signs(Result result, const ElementFormat& element) {
  for (size_t i = 0; i < result.values.size(); ++i) {
    if (result.values[i] != 0 || decode(element, result.codes[i]) != 0) continue;
    result.values[i] = 0.0f;
    result.codes[i] = 0;
  }
  return result;
}

struct Shape {
  int64_t rows, cols;
};

inline OperandSpec spec_of(const Operand& cast, Contract contract, int hadamard, Shape source) {
  OperandSpec spec;
  spec.cast = cast;
  spec.contract = contract;
  spec.rows = contract == Contract::cols ? source.rows : source.cols;
  spec.k = contract == Contract::cols ? source.cols : source.rows;
  if (cast.block.kind == Block::Kind::tile && !cast.is_unscaled())
    spec.k_multiple = cast.block.cols;
  spec.k_multiple = std::lcm(spec.k_multiple, static_cast<int64_t>(std::max(hadamard, 1)));
  spec.hadamard.size = hadamard;
  spec.hadamard.signs = {0xD7E8A5C3u, 0x12345678u, 0x9ABCDEF0u, 0x0F1E2D3Cu};
  return spec;
}

/// Prepares by the definition once, from FP32, then on every instruction set as values are stored.
inline void expect_same(const Operand& cast, Contract contract, int hadamard, Shape shape,
                        Data data, int threads = 1, Storage storage = Storage::fp32) {
  if (is_left_out()) return;
  const Source source =
      make_source(data, shape.rows, shape.cols, shape.cols + shape.cols % 5, storage);
  OperandSpec spec = spec_of(cast, contract, hadamard, shape);
  const Result want = by_definition(spec, source.view);
  const bool any_zero = (data == Data::nonfinite || data == Data::huge) && hadamard != 0;
  cpu::Workspace workspace({threads});
  for (const bool signed_zeros : {true, false}) {
    spec.signed_zeros = signed_zeros;
    if (!signed_zeros && cpu::packed_layout(spec).form != cpu::ElementForm::int8) continue;
    for (const Isa isa : tested_isas()) {
      force_isa(isa);
      const Result got = by_kernels(workspace, spec, source.stored);
      ASSERT_TRUE(equal(got, signed_zeros ? want : without_zero_signs(want, *cast.element),
                        spec.k_padded(), any_zero))
          << describe(cast) << (contract == Contract::cols ? " cols" : " rows") << " hadamard "
          << hadamard << " source " << shape.rows << "x" << shape.cols << " data "
          << static_cast<int>(data) << (storage == Storage::bf16 ? " stored as BF16 " : " ")
          << name_of(isa) << " signed zeros " << signed_zeros;
    }
  }
  force_isa("auto");
}

inline Operand with_block(Operand cast, int rows, int cols, ScaleKind scale) {
  cast.block = {.kind = Block::Kind::tile, .rows = rows, .cols = cols};
  cast.scale = scale;
  return cast;
}

constexpr Contract kContracts[] = {Contract::cols, Contract::rows};

}  // namespace ng
