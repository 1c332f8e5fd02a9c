#include "backend/cpu/cpu_backend.h"

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/ops/activation.h"
#include "backend/cpu/ops/cross_entropy.h"
#include "backend/cpu/ops/elementwise.h"
#include "backend/cpu/ops/embedding.h"
#include "backend/cpu/ops/norm.h"
#include "backend/cpu/ops/reduce.h"
#include "backend/cpu/ops/step.h"
#include "backend/cpu/quantize/quantize.h"
#include "backend/cpu/workspace.h"
#include "backend/host_step.h"

namespace ng {
namespace {

// Every operation is a free function of ng::cpu; this class only carries the workspace to it.
class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(Threads threads) : workspace_(threads) {}

  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] size_t scratch_bytes() const override { return workspace_.bytes(); }

  std::byte* allocate(size_t bytes) override { return cpu::allocate(bytes); }
  void release(std::byte* memory, size_t bytes) override { cpu::release(memory, bytes); }
  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const override {
    return cpu::operand_bytes(spec);
  }
  void prepare(PackedOperand& packed, ConstView source, const PrepareContext& context) override {
    cpu::prepare(workspace_, packed, source, context);
  }
  void prepare_both(const Preparation& first, const Preparation& second,
                    ConstView source) override {
    cpu::prepare_both(workspace_, first, second, source);
  }
  void unpack(const PackedOperand& packed, View values, uint16_t* codes) const override {
    cpu::unpack(packed, values, codes);
  }
  void unpack_rows(const PackedOperand& packed, int64_t first, View values) const override {
    cpu::unpack_rows(packed, first, values);
  }
  void gemm(const GemmOutput& out, const PackedOperand& a, const PackedOperand& b) override {
    cpu::gemm(workspace_, out, a, b);
  }
  void roll_delayed_scale(const Operand& cast, DelayedScale state) override {
    cpu::roll_delayed_scale(cast, state);
  }
  void embed(View y, TokenView ids, ConstView tokens, ConstView positions, const Positions& at,
             Compute compute) override {
    cpu::embed(workspace_, y, ids, tokens, positions, at, compute);
  }
  void embed_backward(View dtokens, View dpositions, ConstView dy, TokenView ids,
                      const Positions& at) override {
    cpu::embed_backward(workspace_, dtokens, dpositions, dy, ids, at);
  }
  void rms_norm(View y, ConstView x, const float* gain, float eps, Compute compute) override {
    cpu::rms_norm(workspace_, y, x, gain, eps, compute);
  }
  void rms_norm_backward(const NormBackward& args, Compute compute) override {
    cpu::rms_norm_backward(workspace_, args, compute);
  }
  void layer_norm(View y, ConstView x, const float* gain, const float* bias, float eps,
                  Compute compute) override {
    cpu::layer_norm(workspace_, y, x, gain, bias, eps, compute);
  }
  void layer_norm_backward(const NormBackward& args, Compute compute) override {
    cpu::layer_norm_backward(workspace_, args, compute);
  }
  void gelu(View y, ConstView x, Gelu kind, Compute compute) override {
    cpu::gelu(workspace_, y, x, kind, compute);
  }
  void gelu_backward(View dx, ConstView dy, ConstView x, Gelu kind, Compute compute) override {
    cpu::gelu_backward(workspace_, dx, dy, x, kind, compute);
  }
  void swiglu(View y, ConstView gate, ConstView up, Compute compute) override {
    cpu::swiglu(workspace_, y, gate, up, compute);
  }
  void swiglu_backward(View dgate, View dup, ConstView dy, ConstView gate, ConstView up,
                       Compute compute) override {
    cpu::swiglu_backward(workspace_, dgate, dup, dy, gate, up, compute);
  }
  void rope_table(View table, float theta) override { cpu::rope_table(workspace_, table, theta); }
  void rope(View x, ConstView table, const Positions& at, int head_dim, bool inverse,
            Compute compute) override {
    cpu::rope(workspace_, x, table, at, head_dim, inverse, compute);
  }
  void attention(View out, View lse, ConstView q, ConstView k, ConstView v,
                 const AttentionShape& shape, Compute compute) override {
    cpu::attention(workspace_, out, lse, q, k, v, shape, compute);
  }
  void attention_backward(const AttentionBackward& args, const AttentionShape& shape,
                          Compute compute) override {
    cpu::attention_backward(workspace_, args, shape, compute);
  }
  void cross_entropy(View logits, float* losses, TokenView targets, const float* mask, float scale,
                     Compute compute) override {
    cpu::cross_entropy(workspace_, logits, losses, targets, mask, scale, compute);
  }
  void cross_entropy_loss(ConstView logits, float* losses, TokenView targets, const float* mask,
                          Compute compute) override {
    cpu::cross_entropy_loss(workspace_, logits, losses, targets, mask, compute);
  }
  void fill(View x, float value) override { cpu::fill(workspace_, x, value); }
  void copy(View y, ConstView x) override { cpu::copy(workspace_, y, x); }
  void add(View y, ConstView a, ConstView b, Compute compute) override {
    cpu::add(workspace_, y, a, b, compute);
  }
  void add_column_sums(float* sum, ConstView x) override {
    cpu::add_column_sums(workspace_, sum, x);
  }
  void add_sum(double* sum, ConstView x) override { cpu::add_sum(workspace_, sum, x); }
  void add_sum_of_squares(double* sum, ConstView x) override {
    cpu::add_sum_of_squares(workspace_, sum, x);
  }
  void add_nonfinite(uint64_t* count, ConstView x) override {
    cpu::add_nonfinite(workspace_, count, x);
  }
  void fill_normal(View x, float deviation, const RandomKey& key) override {
    cpu::fill_normal(workspace_, x, deviation, key);
  }
  void decide_step(StepControl* control, const double* sum_of_squares, double clip,
                   const OperandStats* stats, int64_t stats_count) override {
    decide_step_on_host(control, sum_of_squares, clip, stats, stats_count);
  }
  void adamw(const AdamW& args) override { cpu::adamw(workspace_, args); }

 private:
  cpu::Workspace workspace_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(Threads threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace ng
