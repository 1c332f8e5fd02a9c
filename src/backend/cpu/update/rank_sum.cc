#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "backend/cpu/quantize/job.h"
#include "backend/cpu/update/e4m3.h"
#include "backend/cpu/update/stored.h"
#include "backend/cpu/update/update.h"
#include "backend/ref/rank_sum.h"
#include "format/codec.h"
#include "format/exact_sum.h"

namespace ng::cpu {
namespace {

struct SumBuffers {
  alignas(64) float values[kStretch], running[kStretch];
  alignas(64) double sums[kStretch];
  StretchScratch scratch;
};
static_assert(sizeof(SumBuffers) <= kWorkerScratchBytes);

/// Codes of up to eight bits that share a scale.
bool is_exact_in_fp32(const ConstView& x, size_t ranks) {
  return !x.has_scales() && x.element->bits <= 8 &&
         static_cast<int64_t>(ranks) <= exact_ranks(*x.element).in_fp32;
}

/// What sum_e4m3 adds up.
bool is_e4m3(const SumOfRanks& op) {
  const ConstView& x = op.x[0];
  return x.element->short_name == "e4m3" && !x.has_scales() &&
         (op.rule == RankSum::ring || is_exact_in_fp32(x, op.x.size()));
}

class RankSummer {
 public:
  explicit RankSummer(const SumOfRanks& op)
      : op_(op),
        grid_(element_grid(*op.x[0].element, Overflow::saturate)),
        is_exact_in_fp32_(is_exact_in_fp32(op.x[0], op.x.size())),
        is_e4m3_(is_e4m3(op)),
        inverse_(1.0f / op.encode_scale),
        largest_(max_value(*op.x[0].element)) {
    for (const ConstView& x : op.x)
      ranks_.emplace_back(op.kName, as_stored(x), RandomKey{}, Purpose::gradient_wire);
  }

  /// Through y and all that is added.
  [[nodiscard]] StretchWalk walk() {
    std::vector<StoredCodec*> codecs;
    for (StoredCodec& rank : ranks_) codecs.push_back(&rank);
    bool is_flat = op_.y.contiguous();
    return walk_through(codecs, op_.y.rows, op_.y.cols, is_flat);
  }

  void sum(const Stretch& at, SumBuffers& b) {
    if (is_e4m3_) return sum_codes(at);
    if (op_.rule == RankSum::ring)
      on_ring(at, b);
    else if (is_exact_in_fp32_)
      in_fp32(at, b);
    else
      in_fp64(at, b);
    if (op_.largest != nullptr) count(b.running, at.count);
    float* const y = mean(at);
    for (int64_t i = 0; i < at.count; ++i) y[i] = b.running[i] * inverse_;
  }

  [[nodiscard]] uint64_t largest() const { return found_; }

 private:
  void in_fp32(const Stretch& at, SumBuffers& b) const {
    std::fill_n(b.running, at.count, 0.0f);
    for (const StoredCodec& rank : ranks_)
      add(rank.read(at, b.values, b.scratch), at.count, b.running);
  }

  void in_fp64(const Stretch& at, SumBuffers& b) const {
    std::fill_n(b.sums, at.count, 0.0);
    for (const StoredCodec& rank : ranks_) {
      const float* const values = rank.read(at, b.values, b.scratch);
      for (int64_t i = 0; i < at.count; ++i) b.sums[i] += static_cast<double>(values[i]);
    }
    for (int64_t i = 0; i < at.count; ++i) b.running[i] = static_cast<float>(b.sums[i]);
  }

  void sum_codes(const Stretch& at) {
    if (op_.rule == RankSum::exact) return sum_codes_from(0, at);
    for_shards(at, [&](const Stretch& part, int64_t owner) { sum_codes_from(owner + 1, part); });
  }

  // From rank `first` on round to the one before it.
  void sum_codes_from(int64_t first, const Stretch& at) {
    std::vector<const std::byte*> codes;
    for (int64_t rank = first; rank < first + ranks(); ++rank) {
      const ConstView& x = op_.x[static_cast<size_t>(rank % ranks())];
      codes.push_back(x.data + at.row * x.stride + at.col);
    }
    found_ += sum_e4m3(grid_, {.ranks = codes,
                               .rounds_each = op_.rule == RankSum::ring,
                               .factor = inverse_,
                               .count = at.count,
                               .mean = mean(at)});
  }

  void on_ring(const Stretch& at, SumBuffers& b) const {
    for_shards(at, [&](const Stretch& part, int64_t owner) {
      float* const running = b.running + (part.col - at.col);
      std::fill_n(running, part.count, -0.0f);  // what -0 is added to stays
      for (int64_t hop = 1; hop <= ranks(); ++hop) {
        const StoredCodec& rank = ranks_[static_cast<size_t>((owner + hop) % ranks())];
        add(rank.read(part, b.values, b.scratch), part.count, running);
        if (hop > 1) rank.round(part, running, running, b.scratch);
      }
    });
  }

  /// body(part, its owner): each shard begins with another rank.
  template <class Body>
  void for_shards(const Stretch& at, const Body& body) const {
    const int64_t shard = (op_.size + ranks() - 1) / ranks();
    const int64_t row = op_.first + at.row * op_.y.cols;
    for (int64_t done = 0; done < at.count;) {
      const int64_t element = row + at.col + done, owner = element / shard;
      const Stretch part{at.row, at.col + done,
                         std::min(at.count - done, (owner + 1) * shard - element)};
      body(part, owner);
      done += part.count;
    }
  }

  [[nodiscard]] int64_t ranks() const { return std::ssize(ranks_); }
  [[nodiscard]] float* mean(const Stretch& at) const {
    return reinterpret_cast<float*>(op_.y.data) + at.row * op_.y.stride + at.col;
  }

  static void add(const float* values, int64_t count, float* sums) {
    for (int64_t i = 0; i < count; ++i) sums[i] += values[i];
  }

  void count(const float* sums, int64_t count) {
    uint64_t found = 0;
    for (int64_t i = 0; i < count; ++i) found += std::fabs(sums[i]) == largest_ ? 1 : 0;
    found_ += found;
  }

  const SumOfRanks& op_;
  std::vector<StoredCodec> ranks_;
  ElementGrid grid_;
  bool is_exact_in_fp32_, is_e4m3_;
  float inverse_, largest_;
  std::atomic<uint64_t> found_ = 0;
};

}  // namespace

void perform(Workspace& workspace, const SumOfRanks& op) {
  for (const ConstView& x : op.x)
    NG_CHECK(same_shape(op.y, x), op.y.rows, op.y.cols, x.rows, x.cols);
  if (op.y.size() == 0) return;
  const bool rounds_elements = !op.x[0].has_scales() && op.x[0].element->bits >= 8;
  if (op.rule == RankSum::ring && !rounds_elements) return ref::perform(op);  // no recipe has it
  RankSummer summer(op);
  const StretchWalk walk = summer.walk();
  parallel_for(workspace.threads(), walk.items(), [&](int64_t item, int worker) {
    auto& b = *reinterpret_cast<SumBuffers*>(workspace.worker(worker).data());
    walk.for_item(item, [&](const Stretch& at) { summer.sum(at, b); });
  });
  if (op.largest != nullptr) *op.largest += summer.largest();
}

}  // namespace ng::cpu
