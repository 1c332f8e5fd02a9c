#include "train/operand_error.h"

#include <algorithm>
#include <limits>

#include "format/hadamard.h"
#include "numbers/errors.h"

namespace ng {
namespace {

constexpr int64_t kRows = 16;          // read together: a turned source has them side by side
constexpr int64_t kMostColumns = 512;  // whole blocks and Hadamard groups

// Rows first ... of the operand before its cast, zero-padded and transformed.
void exact_rows(const OperandSpec& spec, ConstView source, int64_t first, View out) {
  const bool turned = spec.contract == Contract::rows;
  const int64_t values = std::min(out.cols, spec.k);
  for (int64_t r = 0; r < out.rows; ++r) std::fill_n(out.row(r), out.cols, 0.0f);
  if (turned) {
    for (int64_t k = 0; k < values; ++k)
      for (int64_t r = 0; r < out.rows; ++r) out.row(r)[k] = source.row(k)[first + r];
  } else {
    for (int64_t r = 0; r < out.rows; ++r) std::copy_n(source.row(first + r), values, out.row(r));
  }
  const int group = spec.hadamard.size;
  if (group == 0) return;
  for (int64_t r = 0; r < out.rows; ++r)
    for (int64_t k = 0; k < out.cols; k += group)
      hadamard_transform(out.row(r) + k, group, spec.hadamard.signs.data());
}

}  // namespace

void OperandErrors::operand(const PackedOperand& packed, ConstView source, std::string_view layer,
                            std::string_view role) {
  const auto [place, is_new] = sqnr_db_.try_emplace({std::string(layer), std::string(role)}, 0.0);
  if (is_new) place->second = measure(packed, source);
}

double OperandErrors::measure(const PackedOperand& packed, ConstView source) {
  const OperandSpec& spec = packed.spec;
  const int64_t cols = std::min(spec.k_padded(), kMostColumns);
  exact_.resize(static_cast<size_t>(kRows * cols));
  narrow_.resize(exact_.size());
  ErrorSums sums;
  const int64_t middle = spec.rows / 2 / kRows * kRows;
  for (const int64_t first : {int64_t{0}, middle}) {
    const int64_t rows = std::min(kRows, spec.rows - first);
    const View exact{exact_.data(), rows, cols, cols}, narrow{narrow_.data(), rows, cols, cols};
    exact_rows(spec, source, first, exact);
    run_.ops().unpack_rows(packed, first, narrow);
    const auto count = static_cast<size_t>(rows * cols);
    for (size_t i = 0; i < count; ++i) narrow_[i] /= spec.cast.prescale;
    sums.add(std::span<const float>(exact_.data(), count),
             std::span<const float>(narrow_.data(), count));
    if (middle == 0) break;
  }
  return sums.metrics().sqnr_db;
}

double OperandErrors::sqnr_db(const std::string& layer, const std::string& role) const {
  const auto found = sqnr_db_.find({layer, role});
  return found == sqnr_db_.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

}  // namespace ng
