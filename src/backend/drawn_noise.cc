#include "backend/drawn_noise.h"

namespace ng {
namespace {

float rounded_normal(const NoisyWeight& of, int64_t row, int64_t col) {
  const int64_t groups = (of.weight.cols + 7) / 8;
  const auto group = static_cast<uint64_t>(row * groups + col / 8);
  return rounded_normal_of(rounded_normals(draw(of.noise_key(), group)) >> (4 * (col % 8)));
}

}  // namespace

float noise_at(const NoisyWeight& of, int64_t row, int64_t col) {
  if (of.noise.rows > 0) return of.noise.as<const float>().row(row)[col];
  if (of.kind == NoiseKind::gaussws) return rounded_normal(of, row, col);
  const float uniform = centered_uniform(random_bits(of.noise_key(), static_cast<uint64_t>(row),
                                                     static_cast<uint64_t>(col),
                                                     static_cast<uint64_t>(of.weight.cols), 16));
  return of.kind == NoiseKind::diffq ? round_to_bf16(uniform) : uniform;
}

}  // namespace ng
