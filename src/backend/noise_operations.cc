#include "backend/noise_operations.h"

namespace ng {

RandomKey NoisyWeight::noise_key() const {
  RandomKey drawn = key;
  drawn.purpose = Purpose::weight_noise;
  drawn.micro = 0;
  return drawn;
}

namespace {
double number(const ConstView& x) { return double{x.as<const float>().row(0)[0]}; }
}  // namespace

float bits_of(const NoisyWeight& of, int64_t i, int64_t j) {
  const float learned = of.bit_widths.as<const float>().row(i)[j];
  return of.kind == NoiseKind::nipq ? static_cast<float>(proxy_bits(learned))
                                    : bits_of_block(learned, of.b_init, of.b_target);
}

NoiseProxy proxy_of(const NoisyWeight& of) {
  RandomKey of_bits = of.noise_key();
  of_bits.tensor = of.bits_tensor;
  const double u = of.bit_noise.rows > 0
                       ? number(of.bit_noise)
                       : double{centered_uniform(random_bits(of_bits, 0, 0, 1, 16))};
  return {number(of.clip), number(of.bit_widths), u};
}

NoiseProxy quiet_proxy_of(const NoisyWeight& of) {
  return {number(of.clip), number(of.bit_widths), 0};
}

}  // namespace ng
