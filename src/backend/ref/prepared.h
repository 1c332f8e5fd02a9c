// For tests of operands: an operand of ref together with its memory.
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
inline OperandSpec spec_of(const Operand& cast, ConstView source, Contract contract,
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
  Prepared(const OperandSpec& spec, ConstView source, const PrepareContext& context = {})
      : storage_(operand_bytes(spec)),
        values_(static_cast<size_t>(spec.rows * spec.k_padded())),
        codes_(values_.size()) {
    packed_ = {
        .spec = spec, .source = source, .storage = storage_.data(), .bytes = storage_.size()};
    prepare(packed_, source, context);
    const bool narrow = spec.cast.element->bits <= 16;
    unpack(packed_, {values_.data(), spec.rows, spec.k_padded(), spec.k_padded()},
           narrow ? codes_.data() : nullptr);
  }
  Prepared(const Operand& cast, ConstView source, int64_t k_multiple = 1,
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

}  // namespace ng::ref
