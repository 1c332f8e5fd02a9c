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
