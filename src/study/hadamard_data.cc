#include <algorithm>
#include <set>

#include "study/hadamard_sections.h"
#include "study/samples.h"

namespace ng::study {
namespace {

constexpr int64_t kHadamardRows = 320;
constexpr float kOutlier = 30.0f;
constexpr uint32_t kValueStream = 0, kColumnStream = 1, kPlaceStream = 2;

}  // namespace

HadamardMatrix normal_matrix(const Settings& settings) {
  const int64_t rows = settings.part_of(kHadamardRows, 8);
  return {samples(Distribution::normal, stream(settings.seed, kValueStream), rows * kHadamardCols,
                  settings.threads)};
}

HadamardMatrix outlier_matrix(const Settings& settings) {
  HadamardMatrix x = normal_matrix(settings);
  const RandomKey key = stream(settings.seed, kColumnStream);
  std::set<int64_t> columns;
  for (uint64_t i = 0; static_cast<int64_t>(columns.size()) < kHadamardCols / 100; ++i)
    columns.insert(static_cast<int64_t>(uniform(key, i) * kHadamardCols));
  for (size_t row = 0; row < x.values.size(); row += kHadamardCols)
    for (const int64_t column : columns) x.values[row + static_cast<size_t>(column)] *= kOutlier;
  return x;
}

std::vector<int> outlier_places(const Settings& settings, int g) {
  const RandomKey key = stream(settings.seed, kPlaceStream);
  const int64_t groups = settings.part_of(kHadamardRows, 8) * kHadamardCols / g;
  std::vector<int> places(static_cast<size_t>(groups));
  for (uint64_t group = 0; group < places.size(); ++group)
    places[group] = static_cast<int>(uniform(key, group) * g);
  return places;
}

HadamardMatrix one_in_a_group(const Settings& settings, int g) {
  HadamardMatrix x = normal_matrix(settings);
  float* group = x.values.data();
  for (const int place : outlier_places(settings, g)) {
    group[place] *= kOutlier;
    group += g;
  }
  return x;
}

SignBits hadamard_study_signs(const Settings& settings) {
  return signs_of({.seed = settings.seed, .purpose = Purpose::hadamard_signs}, 0);
}

HadamardMatrix transformed(const HadamardMatrix& x, int g, const Settings& settings) {
  HadamardMatrix z = x;
  if (g == 0) return z;
  const SignBits signs = hadamard_study_signs(settings);
  parallel_for(settings.threads, static_cast<int64_t>(z.values.size()) / g,
               [&](int64_t group, int) {
                 hadamard_transform(z.values.data() + group * g, g, signs.data());
               });
  return z;
}

}  // namespace ng::study
