// The backend of a dry run: every operation does nothing, sizes are those of the real backend.
#pragma once

#include "backend/backend.h"

namespace ng {

class PlanBackend final : public Backend {
 public:
  explicit PlanBackend(const Backend& real) : real_(real) {}
  [[nodiscard]] std::string_view name() const override { return real_.name(); }
  [[nodiscard]] size_t scratch_bytes() const override { return real_.scratch_bytes(); }
  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const override {
    return real_.operand_bytes(spec);
  }
  std::byte* allocate(size_t) override { throw InternalError("a dry run owns no memory"); }
  void release(std::byte*, size_t) override {}

  void prepare(PackedOperand&, ConstView, const PrepareContext&) override {}
  void unpack(const PackedOperand&, View, uint16_t*) const override {}
  void unpack_rows(const PackedOperand&, int64_t, View) const override {}
  void gemm(const GemmOutput&, const PackedOperand&, const PackedOperand&) override {}
  void roll_delayed_scale(const Operand&, DelayedScale) override {}
  void embed(View, TokenView, ConstView, ConstView, const Positions&, Compute) override {}
  void embed_backward(View, View, ConstView, TokenView, const Positions&) override {}
  void rms_norm(View, ConstView, const float*, float, Compute) override {}
  void rms_norm_backward(const NormBackward&, Compute) override {}
  void layer_norm(View, ConstView, const float*, const float*, float, Compute) override {}
  void layer_norm_backward(const NormBackward&, Compute) override {}
  void gelu(View, ConstView, Gelu, Compute) override {}
  void gelu_backward(View, ConstView, ConstView, Gelu, Compute) override {}
  void swiglu(View, ConstView, ConstView, Compute) override {}
  void swiglu_backward(View, View, ConstView, ConstView, ConstView, Compute) override {}
  void rope_table(View, float) override {}
  void rope(View, ConstView, const Positions&, int, bool, Compute) override {}
  void attention(View, View, ConstView, ConstView, ConstView, const AttentionShape&,
                 Compute) override {}
  void attention_backward(const AttentionBackward&, const AttentionShape&, Compute) override {}
  void cross_entropy(View, float*, TokenView, const float*, float, Compute) override {}
  void cross_entropy_loss(ConstView, float*, TokenView, const float*, Compute) override {}
  void fill(View, float) override {}
  void copy(View, ConstView) override {}
  void add(View, ConstView, ConstView, Compute) override {}
  void add_column_sums(float*, ConstView) override {}
  void add_sum(double*, ConstView) override {}
  void add_sum_of_squares(double*, ConstView) override {}
  void add_nonfinite(uint64_t*, ConstView) override {}
  void fill_normal(View, float, const RandomKey&) override {}
  void decide_step(StepControl*, const double*, double, const OperandStats*, int64_t) override {}
  void adamw(const AdamW&) override {}

 private:
  const Backend& real_;
};

}  // namespace ng
