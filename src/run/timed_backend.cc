#include "run/timed_backend.h"

namespace ng {
namespace {

TimeKind kind_of_gemm(const PackedOperand& a, const PackedOperand& b) {
  if (a.spec.contract == Contract::rows) return TimeKind::gemm_wgrad;
  return b.spec.contract == Contract::rows ? TimeKind::gemm_dgrad : TimeKind::gemm_fprop;
}

}  // namespace

std::string_view name_of(TimeKind kind) {
  constexpr std::array<std::string_view, kTimeKinds> kNames = {
      "gemm fprop",          "gemm dgrad",    "gemm wgrad", "quantize",  "attention",
      "norm and activation", "head and loss", "embedding",  "optimizer", "elementwise"};
  return kNames[static_cast<size_t>(kind)];
}

void TimedBackend::prepare(PackedOperand& packed, ConstView source, const PrepareContext& context) {
  timed(TimeKind::quantize, [&] { inner_->prepare(packed, source, context); });
}

void TimedBackend::prepare_both(const Preparation& first, const Preparation& second,
                                ConstView source) {
  timed(TimeKind::quantize, [&] { inner_->prepare_both(first, second, source); });
}

void TimedBackend::gemm(const GemmOutput& out, const PackedOperand& a, const PackedOperand& b) {
  timed(in_head_ ? TimeKind::head_and_loss : kind_of_gemm(a, b), [&] { inner_->gemm(out, a, b); });
}

void TimedBackend::roll_delayed_scale(const Operand& cast, DelayedScale state) {
  timed(TimeKind::quantize, [&] { inner_->roll_delayed_scale(cast, state); });
}

void TimedBackend::embed(View y, TokenView ids, ConstView tokens, ConstView positions,
                         const Positions& at, Compute compute) {
  timed(TimeKind::embedding, [&] { inner_->embed(y, ids, tokens, positions, at, compute); });
}

void TimedBackend::embed_backward(View dtokens, View dpositions, ConstView dy, TokenView ids,
                                  const Positions& at) {
  timed(TimeKind::embedding, [&] { inner_->embed_backward(dtokens, dpositions, dy, ids, at); });
}

void TimedBackend::rms_norm(View y, ConstView x, const float* gain, float eps, Compute compute) {
  timed(TimeKind::norm_activation, [&] { inner_->rms_norm(y, x, gain, eps, compute); });
}

void TimedBackend::rms_norm_backward(const NormBackward& args, Compute compute) {
  timed(TimeKind::norm_activation, [&] { inner_->rms_norm_backward(args, compute); });
}

void TimedBackend::layer_norm(View y, ConstView x, const float* gain, const float* bias, float eps,
                              Compute compute) {
  timed(TimeKind::norm_activation, [&] { inner_->layer_norm(y, x, gain, bias, eps, compute); });
}

void TimedBackend::layer_norm_backward(const NormBackward& args, Compute compute) {
  timed(TimeKind::norm_activation, [&] { inner_->layer_norm_backward(args, compute); });
}

void TimedBackend::gelu(View y, ConstView x, Gelu kind, Compute compute) {
  timed(TimeKind::norm_activation, [&] { inner_->gelu(y, x, kind, compute); });
}

void TimedBackend::gelu_backward(View dx, ConstView dy, ConstView x, Gelu kind, Compute compute) {
  timed(TimeKind::norm_activation, [&] { inner_->gelu_backward(dx, dy, x, kind, compute); });
}

void TimedBackend::swiglu(View y, ConstView gate, ConstView up, Compute compute) {
  timed(TimeKind::norm_activation, [&] { inner_->swiglu(y, gate, up, compute); });
}

void TimedBackend::swiglu_backward(View dgate, View dup, ConstView dy, ConstView gate, ConstView up,
                                   Compute compute) {
  timed(TimeKind::norm_activation,
        [&] { inner_->swiglu_backward(dgate, dup, dy, gate, up, compute); });
}

void TimedBackend::rope_table(View table, float theta) {
  timed(TimeKind::attention, [&] { inner_->rope_table(table, theta); });
}

void TimedBackend::rope(View x, ConstView table, const Positions& at, int head_dim, bool inverse,
                        Compute compute) {
  timed(TimeKind::attention, [&] { inner_->rope(x, table, at, head_dim, inverse, compute); });
}

void TimedBackend::attention(View out, View lse, ConstView q, ConstView k, ConstView v,
                             const AttentionShape& shape, Compute compute) {
  timed(TimeKind::attention, [&] { inner_->attention(out, lse, q, k, v, shape, compute); });
}

void TimedBackend::attention_backward(const AttentionBackward& args, const AttentionShape& shape,
                                      Compute compute) {
  timed(TimeKind::attention, [&] { inner_->attention_backward(args, shape, compute); });
}

void TimedBackend::cross_entropy(View logits, float* losses, TokenView targets, const float* mask,
                                 float scale, Compute compute) {
  timed(TimeKind::head_and_loss,
        [&] { inner_->cross_entropy(logits, losses, targets, mask, scale, compute); });
}

void TimedBackend::cross_entropy_loss(ConstView logits, float* losses, TokenView targets,
                                      const float* mask, Compute compute) {
  timed(TimeKind::head_and_loss,
        [&] { inner_->cross_entropy_loss(logits, losses, targets, mask, compute); });
}

void TimedBackend::fill(View x, float value) {
  timed(TimeKind::elementwise, [&] { inner_->fill(x, value); });
}

void TimedBackend::copy(View y, ConstView x) {
  timed(TimeKind::elementwise, [&] { inner_->copy(y, x); });
}

void TimedBackend::add(View y, ConstView a, ConstView b, Compute compute) {
  timed(TimeKind::elementwise, [&] { inner_->add(y, a, b, compute); });
}

void TimedBackend::add_column_sums(float* sum, ConstView x) {
  timed(TimeKind::elementwise, [&] { inner_->add_column_sums(sum, x); });
}

void TimedBackend::add_sum(double* sum, ConstView x) {
  timed(TimeKind::elementwise, [&] { inner_->add_sum(sum, x); });
}

void TimedBackend::add_sum_of_squares(double* sum, ConstView x) {
  timed(TimeKind::optimizer, [&] { inner_->add_sum_of_squares(sum, x); });
}

void TimedBackend::add_nonfinite(uint64_t* count, ConstView x) {
  timed(TimeKind::elementwise, [&] { inner_->add_nonfinite(count, x); });
}

void TimedBackend::fill_normal(View x, float deviation, const RandomKey& key) {
  timed(TimeKind::elementwise, [&] { inner_->fill_normal(x, deviation, key); });
}

void TimedBackend::decide_step(StepControl* control, const double* sum_of_squares, double clip,
                               const OperandStats* stats, int64_t stats_count) {
  timed(TimeKind::optimizer,
        [&] { inner_->decide_step(control, sum_of_squares, clip, stats, stats_count); });
}

void TimedBackend::adamw(const AdamW& args) {
  timed(TimeKind::optimizer, [&] { inner_->adamw(args); });
}

}  // namespace ng
