// Where the time of a step goes: counts the seconds of each kind of operation. Two clock reads per
// whole-tensor operation cost well under 1 % of it.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <numeric>
#include <string_view>

#include "backend/backend.h"

namespace ng {

enum class TimeKind : uint8_t {
  gemm_fprop,
  gemm_dgrad,
  gemm_wgrad,
  quantize,
  attention,
  norm_activation,
  head_and_loss,  ///< the head's GEMMs too; its casts are quantize
  embedding,
  optimizer,
  elementwise,
};
constexpr size_t kTimeKinds = 10;
[[nodiscard]] std::string_view name_of(TimeKind kind);

/// Seconds per kind.
using TimeByKind = std::array<double, kTimeKinds>;
[[nodiscard]] inline double total_seconds(const TimeByKind& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

class TimedBackend final : public Backend {
 public:
  explicit TimedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  /// While one lives, GEMMs count as the head's.
  class InHead {
   public:
    explicit InHead(TimedBackend& backend) : backend_(backend) { backend_.in_head_ = true; }
    ~InHead() { backend_.in_head_ = false; }
    InHead(const InHead&) = delete;
    InHead& operator=(const InHead&) = delete;

   private:
    TimedBackend& backend_;
  };

  /// Seconds since the last reset.
  [[nodiscard]] const TimeByKind& seconds() const { return seconds_; }
  void reset_seconds() { seconds_ = {}; }

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  [[nodiscard]] size_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  std::byte* allocate(size_t bytes) override { return inner_->allocate(bytes); }
  void release(std::byte* memory, size_t bytes) override { inner_->release(memory, bytes); }
  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const override {
    return inner_->operand_bytes(spec);
  }
  void unpack(const PackedOperand& packed, View values, uint16_t* codes) const override {
    inner_->unpack(packed, values, codes);
  }
  void unpack_rows(const PackedOperand& packed, int64_t first, View values) const override {
    inner_->unpack_rows(packed, first, values);
  }

  void prepare(PackedOperand& packed, ConstView source, const PrepareContext& context) override;
  void prepare_both(const Preparation& first, const Preparation& second, ConstView source) override;
  void gemm(const GemmOutput& out, const PackedOperand& a, const PackedOperand& b) override;
  void roll_delayed_scale(const Operand& cast, DelayedScale state) override;
  void embed(View y, TokenView ids, ConstView tokens, ConstView positions, const Positions& at,
             Compute compute) override;
  void embed_backward(View dtokens, View dpositions, ConstView dy, TokenView ids,
                      const Positions& at) override;
  void rms_norm(View y, ConstView x, const float* gain, float eps, Compute compute) override;
  void rms_norm_backward(const NormBackward& args, Compute compute) override;
  void layer_norm(View y, ConstView x, const float* gain, const float* bias, float eps,
                  Compute compute) override;
  void layer_norm_backward(const NormBackward& args, Compute compute) override;
  void gelu(View y, ConstView x, Gelu kind, Compute compute) override;
  void gelu_backward(View dx, ConstView dy, ConstView x, Gelu kind, Compute compute) override;
  void swiglu(View y, ConstView gate, ConstView up, Compute compute) override;
  void swiglu_backward(View dgate, View dup, ConstView dy, ConstView gate, ConstView up,
                       Compute compute) override;
  void rope_table(View table, float theta) override;
  void rope(View x, ConstView table, const Positions& at, int head_dim, bool inverse,
            Compute compute) override;
  void attention(View out, View lse, ConstView q, ConstView k, ConstView v,
                 const AttentionShape& shape, Compute compute) override;
  void attention_backward(const AttentionBackward& args, const AttentionShape& shape,
                          Compute compute) override;
  void cross_entropy(View logits, float* losses, TokenView targets, const float* mask, float scale,
                     Compute compute) override;
  void cross_entropy_loss(ConstView logits, float* losses, TokenView targets, const float* mask,
                          Compute compute) override;
  void fill(View x, float value) override;
  void copy(View y, ConstView x) override;
  void add(View y, ConstView a, ConstView b, Compute compute) override;
  void add_column_sums(float* sum, ConstView x) override;
  void add_sum(double* sum, ConstView x) override;
  void add_sum_of_squares(double* sum, ConstView x) override;
  void add_nonfinite(uint64_t* count, ConstView x) override;
  void fill_normal(View x, float deviation, const RandomKey& key) override;
  void decide_step(StepControl* control, const double* sum_of_squares, double clip,
                   const OperandStats* stats, int64_t stats_count) override;
  void adamw(const AdamW& args) override;

 private:
  using Clock = std::chrono::steady_clock;
  template <class Operation>
  void timed(TimeKind kind, const Operation& operation) {
    const Clock::time_point start = Clock::now();
    operation();
    seconds_[static_cast<size_t>(kind)] +=
        std::chrono::duration<double>(Clock::now() - start).count();
  }

  std::unique_ptr<Backend> inner_;
  TimeByKind seconds_{};
  bool in_head_ = false;
};

}  // namespace ng
