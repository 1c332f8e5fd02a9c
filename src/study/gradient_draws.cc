#include "study/gradient_draws.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "study/mean.h"

namespace ng::study {
namespace {

Overlap sum_of(const std::vector<Overlap>& overlaps, std::span<const size_t> matrices) {
  Overlap sum;
  for (const size_t m : matrices) sum += overlaps[m];
  return sum;
}

}  // namespace

Overlap& Overlap::operator+=(const Overlap& other) {
  rr += other.rr;
  gr += other.gr;
  gg += other.gg;
  dd += other.dd;
  return *this;
}

double Overlap::cosine() const { return gr == rr && dd == 0 ? 1 : gr / std::sqrt(gg * rr); }

double Overlap::relative_error() const { return std::sqrt(dd / rr); }

Overlap overlap(std::span<const float> g, std::span<const float> reference) {
  Overlap found{.rr = dot(reference, reference), .gr = dot(g, reference), .gg = dot(g, g)};
  for (size_t i = 0; i < g.size(); ++i) {
    const double off = static_cast<double>(g[i]) - reference[i];
    found.dd += off * off;
  }
  return found;
}

double sqnr(double relative_error) {
  return relative_error > 0 ? -20 * std::log10(relative_error) : kNone;
}

GradientDraws::GradientDraws(std::vector<float> reference, std::vector<int64_t> sizes)
    : reference_(std::move(reference)), sizes_(std::move(sizes)), sum_(reference_.size()) {
  const int64_t all = std::accumulate(sizes_.begin(), sizes_.end(), int64_t{0});
  NG_CHECK(all == std::ssize(reference_), all, reference_.size());
}

std::vector<Overlap> GradientDraws::overlaps_of(std::span<const float> g) const {
  std::vector<Overlap> found;
  size_t at = 0;
  for (const int64_t size : sizes_) {
    const auto count = static_cast<size_t>(size);
    found.push_back(
        overlap(g.subspan(at, count), std::span<const float>(reference_).subspan(at, count)));
    at += count;
  }
  return found;
}

void GradientDraws::add(std::span<const float> g) {
  NG_CHECK(g.size() == reference_.size(), g.size(), reference_.size());
  overlaps_.push_back(overlaps_of(g));
  for (size_t i = 0; i < g.size(); ++i) sum_[i] += g[i];
}

std::vector<float> GradientDraws::mean() const {
  std::vector<float> mean;
  mean.reserve(sum_.size());
  for (const double sum : sum_)
    mean.push_back(static_cast<float>(sum / static_cast<double>(count())));
  return mean;
}

DrawnErrors GradientDraws::errors(std::span<const size_t> matrices) const {
  NG_CHECK(count() >= 2, count());
  DrawnErrors errors;
  for (const std::vector<Overlap>& draw : overlaps_) {
    const Overlap sum = sum_of(draw, matrices);
    errors.projection.add(sum.projection());
    errors.cosine.add(sum.cosine());
    errors.error.add(sum.relative_error());
  }
  errors.error_of_mean = sum_of(overlaps_of(mean()), matrices).relative_error();
  // E‖mean - r‖² = bias² + variance/n, and the mean of ‖draw - r‖² is bias² + variance.
  const auto n = static_cast<double>(count());
  const double squares = n * errors.error_of_mean * errors.error_of_mean;
  errors.bias = std::sqrt(std::max(0.0, (squares - errors.error.mean_square()) / (n - 1)));
  return errors;
}

DrawnErrors GradientDraws::errors() const {
  std::vector<size_t> all(sizes_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return errors(all);
}

}  // namespace ng::study
