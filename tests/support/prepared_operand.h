// An operand of ref together with its memory, inputs and contexts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/ref/operand.h"

namespace ng::ref {

/// Path of a file in tests/golden.
inline std::string golden(const std::string& name) {
  return std::string(NG_SOURCE_DIR) + "/tests/golden/" + name + ".safetensors";
}

/// `source` as an operand of `cast`, its whole shape taken from the source.
inline OperandSpec spec_of(const Operand& cast, const ConstView& source, Contract contract,
                           int64_t k_multiple) {
  const bool straight = contract == Contract::cols;
  return {.cast = cast,
          .contract = contract,
          .rows = straight ? source.rows : source.cols,
          .k = straight ? source.cols : source.rows,
          .k_multiple = k_multiple,
          .hadamard = {}};
}

inline ConstView view_of(const std::vector<float>& values, int64_t rows, int64_t cols) {
  NG_CHECK(static_cast<int64_t>(values.size()) >= rows * cols, values.size(), rows, cols);
  return {values.data(), rows, cols, cols};
}

/// A prepared operand, its storage, and what the GEMM sees of it.
class Prepared {
 public:
  Prepared(const OperandSpec& spec, const ConstView& source, const PrepareContext& context = {})
      : storage_(operand_bytes(spec)),
        values_(static_cast<size_t>(spec.rows * spec.k_padded())),
        codes_(values_.size()) {
    packed_ = {
        .spec = spec, .source = source, .storage = storage_.data(), .bytes = storage_.size()};
    prepare(packed_, source, context);
    const bool narrow = spec.cast.element->bits <= 16;
    perform(Unpack{.packed = &packed_,
                   .values = {values_.data(), spec.rows, spec.k_padded(), spec.k_padded()},
                   .codes = narrow ? codes_.data() : nullptr});
  }
  Prepared(const Operand& cast, const ConstView& source, int64_t k_multiple = 1,
           Contract contract = Contract::cols, const PrepareContext& context = {})
      : Prepared(spec_of(cast, source, contract, k_multiple), source, context) {}

  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  [[nodiscard]] const PackedOperand& packed() const { return packed_; }
  [[nodiscard]] OperandParts parts() const { return parts_of(packed_); }
  [[nodiscard]] float value(int64_t row, int64_t k) const { return values_[at(row, k)]; }
  [[nodiscard]] uint16_t code(int64_t row, int64_t k) const { return codes_[at(row, k)]; }
  [[nodiscard]] const std::vector<float>& values() const { return values_; }
  [[nodiscard]] const std::vector<uint16_t>& codes() const { return codes_; }

 private:
  [[nodiscard]] size_t at(int64_t row, int64_t k) const {
    return static_cast<size_t>(row * packed_.spec.k_padded() + k);
  }

  PackedOperand packed_;
  std::vector<std::byte> storage_;
  std::vector<float> values_;
  std::vector<uint16_t> codes_;
};

/// A context that only counts.
inline PrepareContext counting(OperandStats& stats) {
  PrepareContext context;
  context.stats = &stats;
  return context;
}

/// A context for stochastic rounding.
inline PrepareContext drawing(const RandomKey& key, OperandStats* stats = nullptr) {
  PrepareContext context;
  context.key = key;
  context.stats = stats;
  return context;
}

/// `first`, then zeros up to `size`.
inline std::vector<float> block_of(std::vector<float> first, size_t size) {
  first.resize(size, 0.0f);
  return first;
}

/// About normal values, the same in every run.
inline std::vector<float> normals(int64_t count, uint64_t seed) {
  std::vector<float> x(static_cast<size_t>(count));
  const RandomKey key = {.seed = seed};
  for (size_t i = 0; i < x.size(); ++i) {
    float sum = 0;  // of four uniforms in ±1
    for (uint64_t j = 0; j < 4; ++j)
      sum += static_cast<float>(static_cast<int32_t>(random_bits(key, i, j, 8, 32))) * 0x1p-31f;
    x[i] = sum;
  }
  return x;
}

inline std::vector<uint16_t> first_codes(const Prepared& q, size_t count) {
  return {q.codes().begin(), q.codes().begin() + static_cast<int64_t>(count)};
}
inline std::vector<float> first_values(const Prepared& q, size_t count) {
  return {q.values().begin(), q.values().begin() + static_cast<int64_t>(count)};
}

}  // namespace ng::ref
