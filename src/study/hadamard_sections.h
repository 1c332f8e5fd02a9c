// Data of study hadamard: a matrix of N(0,1) without and with outliers, as it is and transformed,
// and the section in a file of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "format/hadamard.h"
#include "study/study.h"
#include "tensor/rows.h"

namespace ng::study {

inline constexpr int kHadamardSizes[] = {16, 32, 64, 128};
inline constexpr int64_t kHadamardCols = 6400;  ///< one in a hundred are 64 columns

/// (rows, kHadamardCols)
struct HadamardMatrix {
  std::vector<float> values;
  [[nodiscard]] Rows<const float> view() const {
    return {values.data(), static_cast<int64_t>(values.size()) / kHadamardCols, kHadamardCols,
            kHadamardCols};
  }
};

/// N(0,1)
[[nodiscard]] HadamardMatrix normal_matrix(const Settings& settings);
/// One in a hundred columns, drawn without repetition, times 30.
[[nodiscard]] HadamardMatrix outlier_matrix(const Settings& settings);
/// Where in each run of g values the outlier of one_in_a_group lies.
[[nodiscard]] std::vector<int> outlier_places(const Settings& settings, int g);
/// One value in every run of g values times 30, at a random place.
[[nodiscard]] HadamardMatrix one_in_a_group(const Settings& settings, int g);

[[nodiscard]] SignBits hadamard_study_signs(const Settings& settings);
/// Groups of g values transformed; g = 0: as it is.
[[nodiscard]] HadamardMatrix transformed(const HadamardMatrix& x, int g, const Settings& settings);

/// The variance of stochastic rounding by element, with and without outliers in the block, beside
/// what bounds it. Takes one step of `progress`.
[[nodiscard]] Section hadamard_variance_section(const Settings& settings, Progress& progress);

}  // namespace ng::study
