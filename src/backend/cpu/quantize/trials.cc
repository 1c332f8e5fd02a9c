#include "backend/cpu/quantize/trials.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/quantize/exact.h"
#include "base/error.h"
#include "format/codec.h"

namespace ng::cpu {
namespace {

bool is_power_trial(const QuantizeJob& job) { return job.request.kind == ScaleKind::e8m0; }

BlockTrial::Error error_of(const QuantizeJob& job) {
  if (is_power_trial(job)) return BlockTrial::Error::exact;
  constexpr BlockTrial::Error kErrors[] = {BlockTrial::Error::mse, BlockTrial::Error::mae,
                                           BlockTrial::Error::max};
  return kErrors[static_cast<size_t>(job.spec.cast.select)];
}

/// Of E8M0 the rule floor's, then the next one; else that of the cast's fit `i`, or of its element,
/// negative of the second.
void candidate_scales(const QuantizeJob& job, int i, const uint32_t* amax,
                      const SecondLevels& levels, int64_t count, float* decode, float* multiplier) {
  if (!is_power_trial(job)) {
    const Operand& cast = job.spec.cast;
    ScaleRequest request = job.request;
    request.own = levels;
    if (cast.other == nullptr) {
      request.fit = cast.fit[i];
      request.refit = cast.fit[0] / cast.fit[i];
    }
    block_scales(request, amax, count, decode, multiplier);
    for (int64_t b = 0; b < count && cast.other != nullptr && i > 0; ++b) decode[b] = -decode[b];
    return;
  }
  const ElementRange range = range_of(*job.spec.cast.element);
  for (int64_t b = 0; b < count; ++b) {
    const bool counts = amax[b] != 0 && amax[b] < kFloatInf;
    const int e = counts ? e8m0_exponent(ScaleRule::mse, float_of_bits(amax[b]), range) : 0;
    multiplier[b] = e8m0_multiplier(e8m0_code(e + i));
    decode[b] = e8m0_value(e8m0_code(e + i));
  }
}

/// Has a block scales to choose from? What is not finite may have NaN for its scale.
bool chooses(const QuantizeJob& job, uint32_t amax) {
  return amax != 0 && (amax < kFloatInf || !is_power_trial(job));
}

}  // namespace

int scales_to_try(const QuantizeJob& job) {
  if (is_power_trial(job)) return job.request.rule == ScaleRule::mse ? 2 : 1;
  return choices_of(job.spec.cast);
}

bool has_vector_trials(const QuantizeJob& job) {
  const QuantizePlan& plan = job.plan;
  return is_tried(job.grid) && (is_power_trial(job) || !job.exact) &&
         job.spec.cast.subnormals == Subnormals::keep &&
         plan.tile_rows * plan.block_cols <= kTriedValues &&
         plan.piece_rows % plan.tile_rows == 0 && plan.piece_cols % plan.block_cols == 0;
}

bool has_drawn_trials(const QuantizeJob& job) {
  return job.spec.cast.rounding == Rounding::stochastic && !is_power_trial(job);
}

bool adds_by_columns(const QuantizeJob& job) {
  return !is_power_trial(job) && job.spec.contract == Contract::rows;
}

void choose_scales(const QuantizeJob& job, const SixteenBlocks& blocks, float* decode,
                   float* multiplier) {
  double least[kTrialBlocks] = {};
  int32_t choosing[kTrialBlocks];
  for (int64_t b = 0; b < kTrialBlocks; ++b) choosing[b] = chooses(job, blocks.amax[b]) ? -1 : 0;
  BestScales best{least, decode, multiplier};
  float tensors[kTrialBlocks];
  std::fill_n(tensors, kTrialBlocks, job.request.two_level.tensor);
  for (int i = 0; i < scales_to_try(job); ++i) {
    float scales[kTrialBlocks], multipliers[kTrialBlocks];
    candidate_scales(job, i, blocks.amax, blocks.levels, kTrialBlocks, scales, multipliers);
    double errors[kTrialBlocks];
    block_errors(job.grid,
                 {.error = error_of(job),
                  .values = blocks.values,
                  .stride = blocks.stride,
                  .count = blocks.count,
                  .draws = blocks.draws,
                  .draw_stride = blocks.draw_stride,
                  .multipliers = multipliers,
                  .scales = scales,
                  .tensor_scales = blocks.levels ? blocks.levels.tensor : tensors,
                  .divides = job.divides,
                  .other = i > 0 ? job.list() : nullptr},
                 errors);
    take_better({errors, scales, multipliers, choosing}, i == 0, best);
  }
}

// ---------------------------------------------------------------- blocks as lanes

TrialLanes::TrialLanes(const QuantizeJob& job, const QuantizeScratch& scratch)
    : job_(job), scratch_(scratch) {}

int64_t TrialLanes::add(const TileValues& values, const PieceDraws& draws, const Piece& tile,
                        int64_t count, int64_t index) {
  const int64_t block = job_.plan.block_cols, rows = job_.plan.tile_rows;
  const bool by_columns = adds_by_columns(job_);
  const int64_t per_row = by_columns ? 1 : block, per_col = by_columns ? rows : 1;
  const int64_t taken = std::min(count, kTrialBlocks - lanes_);
  const bool is_ragged = tile.rows < rows || tile.cols < block;
  if (is_ragged)  // one, with zeros for what it lacks
    for (int64_t i = 0; i < rows * block; ++i)
      scratch_.trial_values[i * kTrialBlocks + lanes_] = 0.0f;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t first = r * per_row * kTrialBlocks + lanes_;
    transpose(values.from(tile.row + r, tile.k).with_stride(block), taken, tile.cols,
              scratch_.trial_values + first, per_col * kTrialBlocks);
    if (draws.data == nullptr) continue;
    for (int64_t b = 0; b < taken; ++b)
      for (int64_t c = 0; c < tile.cols; ++c)
        scratch_.trial_draws[first + c * per_col * kTrialBlocks + b] =
            draws.data[(tile.row + r) * draws.stride + tile.k + b * block + c];
  }
  for (int64_t b = 0; b < taken; ++b) index_[lanes_ + b] = index + b;
  lanes_ += taken;
  if (lanes_ == kTrialBlocks) flush();
  return taken;
}

void TrialLanes::flush() {
  uint32_t amax[kTrialBlocks] = {};
  float decode[kTrialBlocks] = {}, multiplier[kTrialBlocks] = {};
  float tensors[kTrialBlocks] = {}, factors[kTrialBlocks] = {};
  for (int64_t b = 0; b < lanes_; ++b) {
    amax[b] = scratch_.amax[index_[b]];
    decode[b] = scratch_.decode[index_[b]];
    multiplier[b] = scratch_.multiplier[index_[b]];
    if (!job_.regions) continue;
    tensors[b] = scratch_.tensors[index_[b]];
    factors[b] = scratch_.factors[index_[b]];
  }
  if (lanes_ > 0)
    choose_scales(job_,
                  {.values = scratch_.trial_values,
                   .count = job_.plan.tile_rows * job_.plan.block_cols,
                   .draws = has_drawn_trials(job_) ? scratch_.trial_draws : nullptr,
                   .amax = amax,
                   .levels = job_.regions ? SecondLevels{tensors, factors} : SecondLevels{}},
                  decode, multiplier);
  for (int64_t b = 0; b < lanes_; ++b) {
    scratch_.decode[index_[b]] = decode[b];
    scratch_.multiplier[index_[b]] = multiplier[b];
  }
  lanes_ = 0;
}

// ---------------------------------------------------------------- the scalar definition

namespace {

/// Adds up what each scale of a block would lose.
class DefinedTrial {
 public:
  DefinedTrial(const QuantizeJob& job, float amax, const TwoLevelScale& level)
      : job_(job),
        tensor_(level.tensor),
        codec_(*job.spec.cast.element, job.spec.cast.subnormals),
        count_(scales_to_try(job)) {
    const uint32_t bits = float_bits(amax);
    for (int i = 0; i < count_; ++i)
      candidate_scales(job, i, &bits, {&level.tensor, &level.block}, 1, &decode_[i],
                       &multiplier_[i]);
  }

  void add(float x, int64_t row, int64_t k) {
    for (int i = 0; i < count_; ++i) {
      if (is_power_trial(job_)) {  // to nearest, saturating, whatever the cast does
        const float q = codec_.decode(codec_.encode(x * multiplier_[i]));
        const double off = static_cast<double>(x) - static_cast<double>(q) * decode_[i];
        error_[i] += off * off;
        continue;
      }
      const float q = exact_element(job_, codec_, exact_scaled(job_, x, multiplier_[i]), row, k,
                                    has_other_element(decode_[i]));
      const float decoded = q * decode_[i] * tensor_;
      const double off = std::fabs(static_cast<double>(decoded) - static_cast<double>(x));
      switch (job_.spec.cast.select) {
        case Select::max:
          error_[i] = off > error_[i] ? off : error_[i];
          break;
        default:
          error_[i] += job_.spec.cast.select == Select::mse ? off * off : off;
      }
    }
  }

  [[nodiscard]] ScaleChoice best() const {
    int best = 0;
    for (int i = 1; i < count_; ++i)
      if (error_[i] < error_[best]) best = i;
    return {.decode = decode_[best], .multiplier = multiplier_[best]};
  }

 private:
  const QuantizeJob& job_;
  float tensor_;
  ElementCodec codec_;
  int count_;
  float decode_[Fits::kMost] = {}, multiplier_[Fits::kMost] = {};
  double error_[Fits::kMost] = {};
};

}  // namespace

ScaleChoice choose_scale(const QuantizeJob& job, const Piece& block, float amax, float* buffer) {
  DefinedTrial trial(job, amax, job.second_level(block.row, block.k));
  if (adds_by_columns(job)) {  // a tile, which a piece holds
    NG_CHECK(block.rows <= job.plan.piece_rows && block.cols <= job.plan.piece_cols, block.rows,
             block.cols);
    const TileValues values = job.source.load(block, buffer).values;
    for (int64_t c = 0; c < block.cols; ++c)
      for (int64_t r = 0; r < block.rows; ++r) trial.add(values(r, c), block.row + r, block.k + c);
    return trial.best();
  }
  for (int64_t r = 0; r < block.rows; ++r) {
    for (int64_t k = 0; k < block.cols; k += job.plan.piece_cols) {
      const int64_t cols = std::min(job.plan.piece_cols, block.cols - k);
      const Piece part{.row = block.row + r, .rows = 1, .k = block.k + k, .cols = cols};
      const TileValues values = job.source.load(part, buffer).values;
      for (int64_t c = 0; c < cols; ++c) trial.add(values(0, c), block.row + r, part.k + c);
    }
  }
  return trial.best();
}

}  // namespace ng::cpu
