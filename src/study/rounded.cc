#include "study/rounded.h"

#include <cmath>

#include "base/error.h"
#include "numbers/narrow_matrix.h"

namespace ng::study {

double decibels(double relative_mse) { return -10 * std::log10(relative_mse); }

ErrorMetrics cast_error(Rows<const float> x, const Operand& cast, Threads threads,
                        std::span<const float> factors) {
  const auto runs = static_cast<int64_t>(factors.size());
  NG_CHECK(runs == 0 || (x.contiguous() && x.size() % runs == 0), x.size(), runs);
  const NarrowMatrix narrow = quantize(x, cast, {}, threads);
  std::vector<float> rounded = dequantize(narrow, threads);
  ErrorSums sums;
  if (runs == 0) {
    sums = error_sums(x, {rounded.data(), x.rows, x.cols, x.cols}, threads);
  } else {
    std::vector<double> original(rounded.size());
    for (size_t i = 0; i < rounded.size(); ++i) {
      const float factor = factors[i / (rounded.size() / factors.size())];
      original[i] = static_cast<double>(x.data[i]) / factor;
      rounded[i] /= factor;
    }
    sums.add(original, rounded);
  }
  sums.add_saturated(narrow.counts.saturated);
  return sums.metrics();
}

Operand block_cast(std::string_view element, int block, ScaleKind scale, ScaleRule rule) {
  Operand cast;
  cast.element = &element_format(element);
  cast.block = {.kind = Block::Kind::tile, .rows = 1, .cols = block};
  cast.scale = scale;
  cast.tensor_scale = scale == ScaleKind::e4m3 ? ScaleKind::fp32 : ScaleKind::none;
  cast.scale_rule = rule;
  return cast;
}

}  // namespace ng::study
