#include "backend/cpu/quantize/statistics.h"

#include <algorithm>

#include "format/block_statistic.h"

namespace ng::cpu {
namespace {

/// Values `first`, `first` + 1 ... of a block, which lie in a row.
template <class Use>
void use_row(const TileValues& row, int64_t first, int64_t count, const Use& use) {
  int64_t c = 0;
  for (; first % 8 == 0 && c + 8 <= count; c += 8) {
    if (!row.is_bf16()) {
      use.eight(row.fp32() + c);
      continue;
    }
    float eight[8];
    for (int i = 0; i < 8; ++i) eight[i] = widened(row.bf16()[c + i]);
    use.eight(eight);
  }
  for (; c < count; ++c) use(first + c, row(0, c));
}

template <class ForEach>
ScaleChoice choice_of(const QuantizeJob& job, const Piece& block, float amax,
                      const ForEach& for_each) {
  const Operand& cast = job.spec.cast;
  const float t = scale_statistic(statistic_rule(cast), job.request.max, amax,
                                  block.rows * block.cols, for_each);
  if (cast.scale != ScaleKind::e8m0) return {.decode = t, .multiplier = t};
  const uint32_t code = t > 0 ? e8m0_code(e8m0_exponent(cast.scale_rule, t)) : 0;
  return {.decode = e8m0_value(code), .multiplier = e8m0_multiplier(code)};
}

}  // namespace

ScaleChoice statistic_scale(const QuantizeJob& job, const TileValues& values, const Piece& block,
                            float amax) {
  return choice_of(job, block, amax, [&](const auto& use) {
    for (int64_t r = 0; r < block.rows; ++r)
      use_row(values.from(r, 0), r * block.cols, block.cols, use);
  });
}

ScaleChoice statistic_scale(const QuantizeJob& job, const Piece& block, float amax, float* buffer) {
  return choice_of(job, block, amax, [&](const auto& use) {
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t k = 0; k < block.cols; k += job.plan.piece_cols) {
        const int64_t cols = std::min(job.plan.piece_cols, block.cols - k);
        const Piece part{.row = block.row + r, .rows = 1, .k = block.k + k, .cols = cols};
        const TileValues values = job.source.load(part, buffer).values;
        use_row(values, r * block.cols + k, cols, use);
      }
    }
  });
}

}  // namespace ng::cpu
