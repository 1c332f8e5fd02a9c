#include "train/bit_widths.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/json.h"
#include "recipe/layer_names.h"
#include "run/transfer.h"

namespace ng {
BitWidths figures_of(const std::vector<float>& bits) {
  NG_CHECK(!bits.empty(), bits.size());
  const auto count = static_cast<double>(bits.size());
  const auto share_up_to = [&](float most) {
    return static_cast<double>(
               std::count_if(bits.begin(), bits.end(), [&](float b) { return b <= most; })) /
           count;
  };
  BitWidths figures{
      .up_to_5 = share_up_to(5), .up_to_9 = share_up_to(9), .up_to_12 = share_up_to(12)};
  for (const float b : bits) figures.mean += b / count;
  for (const float b : bits) figures.sd += (b - figures.mean) * (b - figures.mean) / count;
  figures.sd = std::sqrt(figures.sd);
  std::tie(figures.least, figures.most) = range_of(bits);
  return figures;
}

std::pair<float, float> range_of(const std::vector<float>& bits) {
  const auto nan = std::ranges::find_if(bits, [](float b) { return std::isnan(b); });
  if (nan != bits.end()) return {*nan, *nan};
  const auto [least, most] = std::ranges::minmax(bits);
  return {least, most};
}

Json json_of(const BitWidths& b) {
  return {{"mean", b.mean},       {"sd", b.sd},           {"min", b.least},        {"max", b.most},
          {"up_to_5", b.up_to_5}, {"up_to_9", b.up_to_9}, {"up_to_12", b.up_to_12}};
}

std::vector<float> bits_of(const WeightNoise& noise, const std::vector<float>& b_i) {
  std::vector<float> bits = b_i;
  const auto b_init = static_cast<float>(noise.b_init);
  const auto b_target = static_cast<float>(noise.b_target);
  for (float& b : bits)
    b = noise.kind == NoiseKind::nipq ? static_cast<float>(proxy_bits(b))
                                      : bits_of_block(b, b_init, b_target);
  return bits;
}

Json bit_widths_json(const Run& run, Model& model, const Recipe& recipe) {
  Json json = Json::object();
  for (const Parameter& parameter : model.parameters()) {
    const std::string layer(layers::layer_of(parameter.spec.name));
    if (parameter.spec.name != layers::bits_of(layer)) continue;
    const WeightNoise noise = recipe
                                  .layer({.name = layer,
                                          .block = layers::place_of(layer).block,
                                          .depth = model.config().layers},
                                         0)
                                  .weight_noise;
    json[layer] = json_of(figures_of(bits_of(noise, download(run.backend(), parameter.value()))));
  }
  return json;
}

}  // namespace ng
