#include "train/operand_error.h"

#include <algorithm>
#include <array>
#include <limits>

#include "format/hadamard.h"
#include "nn/operand_role.h"
#include "numbers/errors.h"
#include "run/transfer.h"

namespace ng {
namespace {

constexpr int64_t kMostColumns = 512;  // whole blocks and Hadamard groups

}  // namespace

void read_exact_rows(const Backend& backend, const PackedOperand& packed,
                     const OperandOrigin& origin, int64_t first, const Rows<float>& out) {
  const OperandSpec& spec = packed.spec;
  const auto values = static_cast<size_t>(std::min(out.cols, spec.k));
  for (int64_t r = 0; r < out.rows; ++r) std::fill_n(out.row(r), out.cols, 0.0f);
  std::vector<float> mean(static_cast<size_t>(origin.values.cols));
  if (origin.mean.rows > 0) download_row(backend, origin.mean, 0, mean);
  if (spec.contract == Contract::rows) {
    std::array<float, kOperandRows> column{};
    const ConstView rows = origin.values.columns(first, out.rows);
    for (int64_t k = 0; k < static_cast<int64_t>(values); ++k) {
      download_row(backend, rows, k, std::span(column).first(static_cast<size_t>(out.rows)));
      for (int64_t r = 0; r < out.rows; ++r)
        out.row(r)[k] = column[static_cast<size_t>(r)] - mean[static_cast<size_t>(first + r)];
    }
  } else {
    for (int64_t r = 0; r < out.rows; ++r) {
      download_row(backend, origin.values, first + r, {out.row(r), values});
      for (size_t k = 0; k < values; ++k) out.row(r)[k] -= mean[k];
    }
  }
  const int group = spec.hadamard.size;
  if (group == 0) return;
  for (int64_t r = 0; r < out.rows; ++r)
    for (int64_t k = 0; k < out.cols; k += group)
      hadamard_transform(out.row(r) + k, group, spec.hadamard.signs.data());
}

OperandErrors::OperandErrors(Run& run)
    : run_(run),
      unpacked_(run.persistent_values<float>("unpacked rows", kOperandRows * kMostColumns),
                kOperandRows, kMostColumns, kMostColumns) {}

void OperandErrors::operand(const PackedOperand& packed, const OperandOrigin& origin,
                            std::string_view layer, std::string_view role) {
  if (!can_lose_values(packed.spec.cast)) return;
  const auto [place, is_new] = sqnr_db_.try_emplace({std::string(layer), std::string(role)}, 0.0);
  if (is_new) place->second = measure(packed, origin);
}

double OperandErrors::measure(const PackedOperand& packed, const OperandOrigin& origin) {
  const OperandSpec& spec = packed.spec;
  const int64_t cols = std::min(spec.k_padded(), kMostColumns);
  exact_.resize(static_cast<size_t>(kOperandRows * cols));
  ErrorSums sums;
  const int64_t middle = spec.rows / 2 / kOperandRows * kOperandRows;
  for (const int64_t first : {int64_t{0}, middle}) {
    const int64_t rows = std::min(kOperandRows, spec.rows - first);
    read_exact_rows(run_.backend(), packed, origin, first, {exact_.data(), rows, cols, cols});
    const View narrow = unpacked_.part(0, rows, 0, cols);
    run_.execute(Unpack{.packed = &packed, .first_row = first, .values = narrow});
    narrow_ = download(run_.backend(), narrow);
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
