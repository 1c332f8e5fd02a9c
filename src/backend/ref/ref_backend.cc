#include "backend/ref/ref_backend.h"

#include <cstdlib>
#include <cstring>
#include <limits>

#include "backend/host_step.h"
#include "backend/ref/activation.h"
#include "backend/ref/attention.h"
#include "backend/ref/elementwise.h"
#include "backend/ref/embed.h"
#include "backend/ref/gemm.h"
#include "backend/ref/loss.h"
#include "backend/ref/norm.h"
#include "backend/ref/operand.h"
#include "backend/ref/optimizer.h"

namespace ng {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kScratchDoubles = size_t{1} << 17;

/// Forwards every operation to its topic's file.
class RefBackend final : public Backend {
 public:
  RefBackend() : scratch_(kScratchDoubles) {}

  std::string_view name() const override { return "ref"; }
  size_t scratch_bytes() const override { return scratch_.size() * sizeof(double); }

  std::byte* allocate(size_t bytes) override {
    const bool fits = bytes <= std::numeric_limits<size_t>::max() - kAlignment;
    const size_t size = fits ? (bytes + kAlignment - 1) / kAlignment * kAlignment : 0;
    void* memory = fits ? std::aligned_alloc(kAlignment, size == 0 ? kAlignment : size) : nullptr;
    if (memory == nullptr)
      throw Error({.place = "memory",
                   .key = "",
                   .problem = fmt::format("cannot allocate {} bytes", bytes),
                   .remedy = "a smaller batch, context or model"});
    return static_cast<std::byte*>(std::memset(memory, 0, size));
  }
  void release(std::byte* memory, size_t) override { std::free(memory); }

  size_t operand_bytes(const OperandSpec& spec) const override { return ref::operand_bytes(spec); }
  void prepare(PackedOperand& packed, ConstView source, const PrepareContext& context) override {
    ref::prepare(packed, source, context);
  }
  void unpack(const PackedOperand& packed, View values, uint16_t* codes) const override {
    ref::unpack(packed, values, codes);
  }
  void unpack_rows(const PackedOperand& packed, int64_t first, View values) const override {
    ref::unpack_rows(packed, first, values);
  }
  void gemm(const GemmOutput& out, const PackedOperand& a, const PackedOperand& b) override {
    ref::gemm(out, a, b);
  }
  void roll_delayed_scale(const Operand& cast, DelayedScale state) override {
    ref::roll_delayed_scale(cast, state);
  }

  void embed(View y, TokenView ids, ConstView tokens, ConstView positions, const Positions& at,
             Compute compute) override {
    ref::embed(y, ids, tokens, positions, at, compute);
  }
  void embed_backward(View dtokens, View dpositions, ConstView dy, TokenView ids,
                      const Positions& at) override {
    ref::embed_backward(dtokens, dpositions, dy, ids, at);
  }

  void rms_norm(View y, ConstView x, const float* gain, float eps, Compute compute) override {
    ref::rms_norm(y, x, gain, eps, compute);
  }
  void rms_norm_backward(const NormBackward& args, Compute compute) override {
    ref::rms_norm_backward(args, compute, scratch_);
  }
  void layer_norm(View y, ConstView x, const float* gain, const float* bias, float eps,
                  Compute compute) override {
    ref::layer_norm(y, x, gain, bias, eps, compute);
  }
  void layer_norm_backward(const NormBackward& args, Compute compute) override {
    ref::layer_norm_backward(args, compute, scratch_);
  }

  void gelu(View y, ConstView x, Gelu kind, Compute compute) override {
    ref::gelu(y, x, kind, compute);
  }
  void gelu_backward(View dx, ConstView dy, ConstView x, Gelu kind, Compute compute) override {
    ref::gelu_backward(dx, dy, x, kind, compute);
  }
  void swiglu(View y, ConstView gate, ConstView up, Compute compute) override {
    ref::swiglu(y, gate, up, compute);
  }
  void swiglu_backward(View dgate, View dup, ConstView dy, ConstView gate, ConstView up,
                       Compute compute) override {
    ref::swiglu_backward(dgate, dup, dy, gate, up, compute);
  }

  void rope_table(View table, float theta) override { ref::rope_table(table, theta); }
  void rope(View x, ConstView table, const Positions& at, int head_dim, bool inverse,
            Compute compute) override {
    ref::rope(x, table, at, head_dim, inverse, compute);
  }
  void attention(View out, View lse, ConstView q, ConstView k, ConstView v,
                 const AttentionShape& shape, Compute compute) override {
    ref::attention(out, lse, q, k, v, shape, compute, scratch_);
  }
  void attention_backward(const AttentionBackward& args, const AttentionShape& shape,
                          Compute compute) override {
    ref::attention_backward(args, shape, compute, scratch_);
  }

  void cross_entropy(View logits, float* losses, TokenView targets, const float* mask, float scale,
                     Compute compute) override {
    ref::cross_entropy(logits, losses, targets, mask, scale, compute);
  }
  void cross_entropy_loss(ConstView logits, float* losses, TokenView targets, const float* mask,
                          Compute compute) override {
    ref::cross_entropy_loss(logits, losses, targets, mask, compute);
  }

  void fill(View x, float value) override { ref::fill(x, value); }
  void copy(View y, ConstView x) override { ref::copy(y, x); }
  void add(View y, ConstView a, ConstView b, Compute compute) override {
    ref::add(y, a, b, compute);
  }
  void add_column_sums(float* sum, ConstView x) override { ref::add_column_sums(sum, x); }
  void add_sum(double* sum, ConstView x) override { ref::add_sum(sum, x); }
  void add_sum_of_squares(double* sum, ConstView x) override { ref::add_sum_of_squares(sum, x); }
  void add_nonfinite(uint64_t* count, ConstView x) override { ref::add_nonfinite(count, x); }
  void fill_normal(View x, float deviation, const RandomKey& key) override {
    ref::fill_normal(x, deviation, key);
  }

  void decide_step(StepControl* control, const double* sum_of_squares, double clip,
                   const OperandStats* stats, int64_t stats_count) override {
    decide_step_on_host(control, sum_of_squares, clip, stats, stats_count);
  }
  void adamw(const AdamW& args) override { ref::adamw(args); }

 private:
  std::vector<double> scratch_;  // sums and scores; grows only for very long contexts
};

}  // namespace

std::unique_ptr<Backend> make_ref_backend(Threads) { return std::make_unique<RefBackend>(); }

}  // namespace ng
