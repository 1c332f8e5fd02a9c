// THE SEAM. Every operation that touches tensor elements, listed once. `ref` is the executable
// specification, `cpu` the fast implementation; tests/conformance compares them.
//
// Rules for all operations:
// - Views, control blocks and counters lie in backend memory; nothing here returns a scalar.
// - Nothing allocates; scratch was taken in the constructor, operands get their storage passed in.
// - The bits do not depend on the thread count. [docs/architecture.md, "Bit promises"]
// - `Compute::bf16`: inputs (gains, biases and tables too) are read rounded to BF16, the arithmetic
//   is FP32, every element of the output is rounded once to BF16 (stored as FP32). Parameter
//   gradients, losses and statistics stay FP32. [recipes.md §7, `compute`]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "format/operand.h"
#include "math/philox.h"
#include "tensor/view.h"

namespace ng {

/// Numbers of everything that is not a linear GEMM.
enum class Compute : uint8_t { fp32, bf16 };

/// What happens to an output that already holds values.
enum class Into : uint8_t {
  overwrite,
  add,    ///< y += finished result (one FP32 addition per element)
  carry,  ///< GEMM only: the accumulation chain starts from y; FP32-family operands only
};

// ---------------------------------------------------------------- operands and GEMM

/// Which dimension of the source matrix the GEMM sums over.
enum class Contract : uint8_t {
  cols,  ///< operand rows are source rows
  rows,  ///< the operand is the transposed source
};

enum class Side : uint8_t { left, right };

/// Random Hadamard transform along the reduction dimension. [formats.md §7]
struct Hadamard {
  int size = 0;  ///< 0 (none), 16, 32, 64 or 128
  /// Sign j is negative iff bit j % 32 of word j / 32 is set.
  std::array<uint32_t, 4> signs{};
  friend bool operator==(const Hadamard&, const Hadamard&) = default;
};

/// Everything but the values and the random draws that fixes the bits of an operand.
struct OperandSpec {
  Operand cast;
  Contract contract = Contract::cols;
  Side side = Side::left;
  int64_t rows = 0;        ///< of the operand (M or N of the GEMM)
  int64_t k = 0;           ///< logical reduction length
  int64_t k_multiple = 1;  ///< zero-padded to a multiple of this: lcm of both blocks and Hadamard
  Hadamard hadamard;
  bool signed_zeros = false;  ///< unpack tells -0 from +0; may cost storage

  [[nodiscard]] int64_t k_padded() const { return (k + k_multiple - 1) / k_multiple * k_multiple; }
};

/// Counters of one prepared operand, in backend memory; zeroed by the caller. [formats.md §2.2]
struct OperandStats {
  uint64_t values = 0;     ///< elements counted
  uint64_t saturated = 0;  ///< |x| / scale above the largest element, before rounding
  uint64_t flushed = 0;    ///< x != 0 that became 0
  uint64_t nan = 0;
  uint64_t inf = 0;

  /// Counters of another part of the operand.
  OperandStats& operator+=(const OperandStats& part) {
    values += part.values;
    saturated += part.saturated;
    flushed += part.flushed;
    nan += part.nan;
    inf += part.inf;
    return *this;
  }
  /// Takes off those of a part.
  OperandStats& operator-=(const OperandStats& part) {
    values -= part.values;
    saturated -= part.saturated;
    flushed -= part.flushed;
    nan -= part.nan;
    inf -= part.inf;
    return *this;
  }
};

/// State of a delayed-scaling operand, in backend memory: encode_scale, then the amax history,
/// slot 0 first. [formats.md §5]
struct DelayedScale {
  float* encode_scale = nullptr;  ///< [1], initially 1
  float* history = nullptr;       ///< [amax_history], initially 0
};

/// A GEMM operand in the backend's own layout. `source` is set where the backend reads the values
/// in place instead of storing a packed form (then `storage` may be empty).
struct PackedOperand {
  OperandSpec spec;
  ConstView source;
  std::byte* storage = nullptr;
  size_t bytes = 0;
};

/// How `prepare` draws and what it reports to.
struct PrepareContext {
  RandomKey key;                  ///< read only where the cast rounds stochastically
  int64_t first_row = 0;          ///< of the source within the whole tensor (for the draws)
  DelayedScale delayed;           ///< delayed scaling only
  bool update_history = true;     ///< false in evaluation and recompute
  OperandStats* stats = nullptr;  ///< may be null: nothing is counted
};

/// One of several operands that are made from a source.
struct Preparation {
  PackedOperand& packed;
  const PrepareContext& context;
};

/// y (M, N) = alpha · A (M, K) · B (N, K)ᵀ + bias
struct GemmOutput {
  View y;
  Into into = Into::overwrite;
  const float* bias = nullptr;    ///< [N] or null
  Compute round = Compute::fp32;  ///< bf16: y is rounded once, after bias
};

// ---------------------------------------------------------------- arguments of other operations

/// Shape of (grouped-query) causal attention. q rows are (sequence, position), heads side by side
/// in columns; k and v rows are (sequence, kv position).
struct AttentionShape {
  int64_t sequences = 0;
  int64_t length = 0;     ///< query positions per sequence
  int64_t kv_length = 0;  ///< key positions per sequence that hold values
  int64_t kv_stride = 0;  ///< rows from one sequence's keys to the next (>= kv_length)
  int64_t first = 0;      ///< position of the first query: query i sees keys 0 .. first + i
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
};

/// Gradients of attention and what they are made from; shapes as in Backend::attention.
struct AttentionBackward {
  View dq, dk, dv;
  ConstView dout, out, lse;
  ConstView q, k, v;
};

/// Gradients of a norm over the columns of each row, and what they are made from.
struct NormBackward {
  View dx;                 ///< = dresidual + dnorm/dx · dy; may be dresidual's memory
  float* dgain = nullptr;  ///< [cols], added to
  float* dbias = nullptr;  ///< [cols], added to; null: no bias (rms_norm: always)
  ConstView dresidual;     ///< rows may be 0: none
  ConstView dy;
  ConstView x;
  const float* gain = nullptr;
  float eps = 0;
};

/// Which positions the rows of a batch have: row = sequence · length + i has position first + i.
struct Positions {
  int64_t sequences = 0;
  int64_t length = 0;
  int64_t first = 0;
};

enum class Gelu : uint8_t { tanh, erf };

/// Decides, on the device, whether and how far the step is taken.
struct StepControl {
  double loss = 0;       ///< sum over the step's unmasked targets
  double grad_norm = 0;  ///< before clipping
  float grad_scale = 1;  ///< gradients are multiplied by this: clipping
  uint32_t skip = 0;  ///< 1: loss, gradient norm or an operand was not finite; nothing is updated
};

/// AdamW on one tensor, in FP32 in this order, no fused multiply-add [recipes.md §6]:
///   g = grad·grad_scale;  m = beta1·m + (1 - beta1)·g;  v = beta2·v + (1 - beta2)·(g·g)
///   w = w·(1 - lr·weight_decay) - (lr·(m/correction1)) / (sqrt(v/correction2) + eps)
struct AdamW {
  View weight, m, v;
  ConstView grad;
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0;
  float weight_decay = 0;                ///< 0 for tensors of one dimension
  float correction1 = 1;                 ///< 1 - beta1^t
  float correction2 = 1;                 ///< 1 - beta2^t
  const StepControl* control = nullptr;  ///< null: grad_scale 1, never skipped
};

// ---------------------------------------------------------------- the list of operations

/// Thrown by an operation that a backend does not have: a named SKIP in the conformance suite.
class Unsupported : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Bytes of scratch held for the backend's lifetime (for the memory table).
  [[nodiscard]] virtual size_t scratch_bytes() const = 0;

  // Memory. `allocate` returns zeroed bytes aligned to 64, or throws Error when there is not
  // enough.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void release(std::byte* memory, size_t bytes) = 0;

  // Operands. -----------------------------------------------------------------------------------
  /// Bytes of storage `prepare` needs: 0 where the backend reads the source in place.
  [[nodiscard]] virtual size_t operand_bytes(const OperandSpec& spec) const = 0;
  /// Fills packed.storage (packed.bytes == operand_bytes) from `source`; `source` must outlive
  /// `packed` where operand_bytes is 0.
  virtual void prepare(PackedOperand& packed, ConstView source, const PrepareContext& context) = 0;
  /// Both operands of one source, with the bits of two calls of `prepare`; a backend may read the
  /// source once for both.
  virtual void prepare_both(const Preparation& first, const Preparation& second, ConstView source) {
    prepare(first.packed, source, first.context);
    prepare(second.packed, source, second.context);
  }
  /// For tests and export: values (rows, k_padded) as the GEMM sees them, transform included and
  /// prescale not undone; codes (one per uint16, row-major over (rows, k_padded)) where non-null.
  virtual void unpack(const PackedOperand& packed, View values, uint16_t* codes) const = 0;
  /// A part of these values: operand rows first ... first + values.rows - 1 and the first
  /// values.cols along k.
  virtual void unpack_rows(const PackedOperand& packed, int64_t first, View values) const = 0;
  /// y = A·Bᵀ by the accumulation rules of formats.md §9; undoes scales and prescales. Both
  /// operands have the same k_padded and the same Hadamard transform.
  virtual void gemm(const GemmOutput& out, const PackedOperand& a, const PackedOperand& b) = 0;
  /// End of step: moves every history on and computes the next encode_scale. [formats.md §5]
  virtual void roll_delayed_scale(const Operand& cast, DelayedScale state) = 0;

  // Embedding. y (T, C) = tokens[ids] + positions. positions may have rows == 0.
  virtual void embed(View y, TokenView ids, ConstView tokens, ConstView positions,
                     const Positions& at, Compute compute) = 0;
  /// dtokens[ids[t]] += dy[t] with t ascending; dpositions likewise (where rows > 0). FP32.
  virtual void embed_backward(View dtokens, View dpositions, ConstView dy, TokenView ids,
                              const Positions& at) = 0;

  // Norms over the columns of each row. bias of layer_norm may be null (no bias).
  virtual void rms_norm(View y, ConstView x, const float* gain, float eps, Compute compute) = 0;
  virtual void rms_norm_backward(const NormBackward& args, Compute compute) = 0;
  virtual void layer_norm(View y, ConstView x, const float* gain, const float* bias, float eps,
                          Compute compute) = 0;
  virtual void layer_norm_backward(const NormBackward& args, Compute compute) = 0;

  // Activations.
  virtual void gelu(View y, ConstView x, Gelu kind, Compute compute) = 0;
  virtual void gelu_backward(View dx, ConstView dy, ConstView x, Gelu kind, Compute compute) = 0;
  /// y = silu(gate) * up
  virtual void swiglu(View y, ConstView gate, ConstView up, Compute compute) = 0;
  virtual void swiglu_backward(View dgate, View dup, ConstView dy, ConstView gate, ConstView up,
                               Compute compute) = 0;

  // Attention.
  /// table (positions, head_dim): cos of angle i in column i, sin in column head_dim/2 + i;
  /// angle = position · theta^(-2i/head_dim).
  virtual void rope_table(View table, float theta) = 0;
  /// In place on every head of x: (a, b) of columns (i, i + head_dim/2) -> (a·cos - b·sin,
  /// b·cos + a·sin), the transformers convention; `inverse` turns back (the backward pass).
  virtual void rope(View x, ConstView table, const Positions& at, int head_dim, bool inverse,
                    Compute compute) = 0;
  /// out = softmax(q·kᵀ/sqrt(head_dim), causal)·v; lse (rows of q, heads) = log-sum-exp per query.
  virtual void attention(View out, View lse, ConstView q, ConstView k, ConstView v,
                         const AttentionShape& shape, Compute compute) = 0;
  virtual void attention_backward(const AttentionBackward& args, const AttentionShape& shape,
                                  Compute compute) = 0;

  // Loss.
  /// In place: logits (T, V) -> dlogits = mask · (softmax - onehot) · scale. losses[t] = mask ·
  /// cross-entropy of row t. mask may be null (all ones).
  virtual void cross_entropy(View logits, float* losses, TokenView targets, const float* mask,
                             float scale, Compute compute) = 0;
  /// losses[t] only; logits unchanged.
  virtual void cross_entropy_loss(ConstView logits, float* losses, TokenView targets,
                                  const float* mask, Compute compute) = 0;

  // Elementwise and reductions.
  virtual void fill(View x, float value) = 0;
  virtual void copy(View y, ConstView x) = 0;
  /// y = a + b
  virtual void add(View y, ConstView a, ConstView b, Compute compute) = 0;
  /// sum[c] += Σ_t x[t][c]: bias gradients. FP32, fixed order.
  virtual void add_column_sums(float* sum, ConstView x) = 0;
  /// *sum += Σ x, in FP64 by the fixed 16-lane tree.
  virtual void add_sum(double* sum, ConstView x) = 0;
  /// *sum += Σ x², in FP64 by the fixed 16-lane tree.
  virtual void add_sum_of_squares(double* sum, ConstView x) = 0;
  /// *count += number of NaN and infinite values.
  virtual void add_nonfinite(uint64_t* count, ConstView x) = 0;
  /// x = N(0, deviation²) by Box-Muller on the draws of `key`, element by element.
  virtual void fill_normal(View x, float deviation, const RandomKey& key) = 0;

  // Step.
  /// From the sum of squares of all gradients: norm, clip factor min(1, clip/(norm + 1e-6)) (clip
  /// 0: none), and skip where loss, norm or any operand counter is not finite.
  virtual void decide_step(StepControl* control, const double* sum_of_squares, double clip,
                           const OperandStats* stats, int64_t stats_count) = 0;
  virtual void adamw(const AdamW& args) = 0;
};

}  // namespace ng
