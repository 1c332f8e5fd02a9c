// Operations of layers, forward and backward. Rules for all operations: operations.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "backend/operation_words.h"
#include "base/host_device.h"
#include "math/rope_scaling.h"
#include "tensor/view.h"

namespace ng {

// ---------------------------------------------------------------- embedding and positions

/// Which positions the rows of a batch have: row = sequence · length + i has position first + i.
struct Positions {
  int64_t sequences = 0;
  int64_t length = 0;
  int64_t first = 0;
};

/// y (T, C) = tokens[ids] + positions.
struct Embed {
  static constexpr std::string_view kName = "embed";
  static constexpr TimeKind kTime = TimeKind::embedding;
  View y;
  TokenView ids;
  ConstView tokens;
  ConstView positions{};  ///< no rows: none
  Positions at;
  void each_output(const auto& f) const { f("y", y); }
};

/// dtokens[ids[t]] += dy[t] with t ascending; dpositions likewise.
struct EmbedBackward {
  static constexpr std::string_view kName = "embed_backward";
  static constexpr TimeKind kTime = TimeKind::embedding;
  View dtokens;       ///< FP32
  View dpositions{};  ///< FP32; no rows: none
  ConstView dy;
  TokenView ids;
  Positions at;
  void each_output(const auto& f) const {
    f("dtokens", dtokens);
    f("dpositions", dpositions);
  }
};

/// table (positions, head_dim) FP32: cos of angle i in column i, sin in column head_dim/2 + i;
/// angle = position · f, f = theta^(-2i/head_dim), scaled.
struct RopeTable {
  static constexpr std::string_view kName = "rope_table";
  static constexpr TimeKind kTime = TimeKind::attention;
  View table;
  float theta = 0;
  RopeScaling scaling{};
  void each_output(const auto& f) const { f("table", table); }
};

/// In place on every head of x: (a, b) of columns (i, i + head_dim/2) -> (a·cos - b·sin,
/// b·cos + a·sin), the transformers convention; `inverse` turns back (the backward pass).
struct Rope {
  static constexpr std::string_view kName = "rope";
  static constexpr TimeKind kTime = TimeKind::attention;
  View x;
  ConstView table;
  Positions at;
  int head_dim = 0;
  bool inverse = false;
  void each_output(const auto& f) const { f("x", x); }
};

// ---------------------------------------------------------------- norms and activations

/// rms: x · gain / sqrt(mean(x²) + eps); layer: (x - mean) · gain / sqrt(variance + eps) + bias.
enum class NormKind : uint8_t { rms, layer };

/// Over the columns of each row.
struct Norm {
  static constexpr std::string_view kName = "norm";
  static constexpr TimeKind kTime = TimeKind::norm_activation;
  NormKind kind = NormKind::rms;
  View y;
  ConstView x;
  ConstView gain;    ///< (1, cols) FP32; fewer: of each part of a row [norm_parts.h]
  ConstView bias{};  ///< the same; no rows: none (rms: always)
  float eps = 0;
  StoredAmax* amax = nullptr;  ///< of y; null: not wanted
  void each_output(const auto& f) const { f("y", y); }
};

struct NormBackward {
  static constexpr std::string_view kName = "norm_backward";
  static constexpr TimeKind kTime = TimeKind::norm_activation;
  NormKind kind = NormKind::rms;
  View dx;                ///< = dresidual + dnorm/dx · dy; may be dresidual's memory, or dy's
  View dgain;             ///< shaped as gain, FP32, added to
  View dbias{};           ///< the same; no rows: no bias (rms: always)
  ConstView dresidual{};  ///< no rows: none
  ConstView dy;
  ConstView x;
  ConstView gain;
  float eps = 0;
  StoredAmax* amax = nullptr;  ///< of dx; null: not wanted
  void each_output(const auto& f) const {
    f("dx", dx);
    f("dgain", dgain);
    f("dbias", dbias);
  }
};

enum class GeluKind : uint8_t { tanh, erf };

/// y = x · Φ(x); tanh: the approximation 0.5x(1 + tanh(sqrt(2/π)(x + 0.044715 x³))).
struct Gelu {
  static constexpr std::string_view kName = "gelu";
  static constexpr TimeKind kTime = TimeKind::norm_activation;
  View y;
  ConstView x;
  GeluKind kind = GeluKind::tanh;
  StoredAmax* amax = nullptr;  ///< of y; null: not wanted
  void each_output(const auto& f) const { f("y", y); }
};

struct GeluBackward {
  static constexpr std::string_view kName = "gelu_backward";
  static constexpr TimeKind kTime = TimeKind::norm_activation;
  View dx;
  ConstView dy;
  ConstView x;
  GeluKind kind = GeluKind::tanh;
  StoredAmax* amax = nullptr;  ///< of dx; null: not wanted
  void each_output(const auto& f) const { f("dx", dx); }
};

/// y = silu(gate) ∘ up
struct Swiglu {
  static constexpr std::string_view kName = "swiglu";
  static constexpr TimeKind kTime = TimeKind::norm_activation;
  View y;
  ConstView gate;
  ConstView up;
  StoredAmax* amax = nullptr;  ///< of y; null: not wanted
  void each_output(const auto& f) const { f("y", y); }
};

struct SwigluBackward {
  static constexpr std::string_view kName = "swiglu_backward";
  static constexpr TimeKind kTime = TimeKind::norm_activation;
  View dgate;
  View dup;
  ConstView dy;
  ConstView gate;
  ConstView up;
  StoredAmax* dgate_amax = nullptr;  ///< null: not wanted
  StoredAmax* dup_amax = nullptr;    ///< the same
  void each_output(const auto& f) const {
    f("dgate", dgate);
    f("dup", dup);
  }
};

// ---------------------------------------------------------------- attention

/// Shape of (grouped-query) causal attention. q rows are (sequence, position), heads side by side
/// in columns; k and v rows are (sequence, kv position).
struct AttentionShape {
  int64_t sequences = 0;
  int64_t length = 0;     ///< query positions per sequence
  int64_t kv_length = 0;  ///< key positions per sequence that hold values
  int64_t kv_stride = 0;  ///< rows from one sequence's keys to the next (>= kv_length)
  int64_t first = 0;      ///< position of the first query: query i sees keys up to first + i
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int64_t window = 0;  ///< keys that a query sees at most, its own included; 0: any number

  /// The first key position that the window leaves query i.
  [[nodiscard]] int64_t first_key(int64_t i) const {
    return window == 0 ? 0 : std::max<int64_t>(0, first + i + 1 - window);
  }
};

/// out = softmax(q·kᵀ/sqrt(head_dim), causal)·v; lse = log-sum-exp per query. `first_keys`: for
/// each row of q the first key position that it sees, not below that of the row before it in a
/// sequence; empty: 0 for all. The shape's window is another such bound: the later one counts.
/// `probabilities`: what the softmax gives is rounded to that before it multiplies v; bf16: to
/// nearest even, and that product knows no subnormals (base/flush.h).
struct Attention {
  static constexpr std::string_view kName = "attention";
  static constexpr TimeKind kTime = TimeKind::attention;
  View out;
  View lse;  ///< (rows of q, heads) FP32
  ConstView q, k, v;
  AttentionShape shape;
  TokenView first_keys{};
  Compute probabilities = Compute::fp32;
  StoredAmax* amax = nullptr;  ///< of out; null: not wanted
  void each_output(const auto& f) const {
    f("out", out);
    f("lse", lse);
  }
};

/// Shapes as in Attention; dq, dk and dv are stored as one type. `probabilities`: the same of the
/// softmax where it multiplies dout, and of the scores' gradient where that multiplies k and q.
struct AttentionBackward {
  static constexpr std::string_view kName = "attention_backward";
  static constexpr TimeKind kTime = TimeKind::attention;
  View dq, dk, dv;
  ConstView dout, out, lse;
  ConstView q, k, v;
  AttentionShape shape;
  TokenView first_keys{};
  Compute probabilities = Compute::fp32;
  void each_output(const auto& f) const {
    f("dq", dq);
    f("dk", dk);
    f("dv", dv);
  }
};

// ---------------------------------------------------------------- loss

/// In place: logits (T, V) -> dlogits = mask · (softmax - onehot) · scale. losses[t] = mask ·
/// cross-entropy of row t. The arithmetic is that of logits' type.
struct CrossEntropy {
  static constexpr std::string_view kName = "cross_entropy";
  static constexpr TimeKind kTime = TimeKind::head_and_loss;
  View logits;
  View losses;  ///< (1, T) FP32
  TokenView targets;
  ConstView mask{};  ///< (1, T) FP32; no rows: all ones
  float scale = 1;
  void each_output(const auto& f) const {
    f("dlogits", logits);
    f("losses", losses);
  }
};

/// losses[t] only.
struct CrossEntropyLoss {
  static constexpr std::string_view kName = "cross_entropy_loss";
  static constexpr TimeKind kTime = TimeKind::head_and_loss;
  ConstView logits;
  View losses;
  TokenView targets;
  ConstView mask{};
  void each_output(const auto& f) const { f("losses", losses); }
};

/// Sums over pairs of sequences of which one is preferred, in FP64.
struct PreferenceSums {
  double pairs = 0;  ///< those that have targets
  double loss = 0;
  double chosen = 0, rejected = 0;  ///< log-probabilities by the policy
  /// β·(log-probability by the policy - by the reference).
  double chosen_reward = 0, rejected_reward = 0;
  double accurate = 0;  ///< pairs whose chosen reward is the larger

  NG_HD PreferenceSums& operator+=(const PreferenceSums& other) {
    pairs += other.pairs;
    loss += other.loss;
    chosen += other.chosen;
    rejected += other.rejected;
    chosen_reward += other.chosen_reward;
    rejected_reward += other.rejected_reward;
    accurate += other.accurate;
    return *this;
  }
};

/// The loss of direct preference optimization. Sequences 2i and 2i + 1, of `length` tokens each,
/// are the chosen and the rejected one of pair i; with log p = -Σ_t losses[t] of a sequence,
///   z = β·((log p(c) - log p_ref(c)) - (log p(r) - log p_ref(r)))
///   loss = -(1 - ε)·ln σ(z) - ε·ln σ(-z)                  [Rafailov et al. 2023, eq. 7; ε: cDPO]
/// and d loss / d losses[t] = ±β·(1 - ε - σ(z)), + where chosen, goes into the weights of the
/// tokens whose mask is 1; others get 0. A pair that has none counts for nothing.
struct PreferenceLoss {
  static constexpr std::string_view kName = "preference_loss";
  static constexpr TimeKind kTime = TimeKind::head_and_loss;
  ConstView losses;     ///< (1, T) FP32: the policy's cross-entropies, 0 where the mask is
  ConstView reference;  ///< the same of the reference
  ConstView mask;       ///< (1, T) FP32: 0 or 1
  View weights{};       ///< (1, T) FP32; no rows: not wanted
  int64_t length = 0;
  double beta = 0, label_smoothing = 0;  ///< β, ε
  double* loss = nullptr;                ///< += Σ loss
  PreferenceSums* sums = nullptr;        ///< +=
  void each_output(const auto& f) const { f("weights", weights); }
};

}  // namespace ng
