// Linear: y (T, N) = x (T, K) · W (N, K)ᵀ + b, each of its three GEMMs in the recipe's numbers.
//
//   fprop  y  = Q(x)  · Q(W)ᵀ   contracts K
//   dgrad  dx = Q(dy) · Q(W)    contracts N
//   wgrad  dW = Q(dy)ᵀ · Q(x)   contracts T          [recipes.md §0]
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/layer_noise.h"
#include "nn/narrow_output.h"
#include "nn/operand_role.h"
#include "nn/parameter.h"
#include "recipe/recipe.h"

namespace ng {

class Adapter;
class LinearObserver;

/// A GEMM of the backward pass and what its result goes through: what the rounding of the forward
/// operand lets through, the way back where it is made in the basis of the forward GEMM's
/// transform, and into narrow numbers.
struct BackwardProduct {
  Gemm gemm;
  std::optional<RoundingBackward> passed;
  std::optional<TurnBack> back;
  Tensor made;        ///< what `gemm` writes then
  Tensor bias;        ///< that it adds
  Tensor amax, read;  ///< that `passed` reads
  std::optional<NarrowOutput> narrowed;

  [[nodiscard]] const View& y() const {
    return narrowed ? narrowed->y() : back ? back->y : passed ? passed->y : gemm.y;
  }
  /// Behind the product: the operation that wrote or added it, which overwrites `y`.
  [[nodiscard]] Operation last_into(const View& y) const;
};

class Linear {
 public:
  /// What a layer is made of. `output` is the tensor id of y and dy; `bias` may be null; one
  /// recipe per phase of training.
  struct Parts {
    std::string name;
    uint32_t output = 0;
    Parameter* weight = nullptr;
    Parameter* bias = nullptr;
    std::vector<LinearRecipe> phases;
    std::optional<LayerNoise> noise{};  ///< in training
    /// That layer of the model that is trained, where this one is of a model that is evaluated
    /// beside it: the state of its quantizers is that one's, which outlives this.
    const Linear* trained = nullptr;
    /// What the backward pass reads of x and W is made with what the forward pass does, and kept,
    /// where it takes fewer bytes than they do and no ranks divide the layer.
    bool keeps_operands = false;
  };
  Linear(Run& run, Parts parts);
  Linear(Linear&& other) noexcept;
  ~Linear();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const LinearRecipe& recipe() const { return phases_[phase_]; }
  [[nodiscard]] const std::vector<LinearRecipe>& phases() const { return phases_; }
  [[nodiscard]] uint32_t output() const { return output_; }
  [[nodiscard]] Parameter& weight() { return *weight_; }
  [[nodiscard]] int64_t inputs() const { return weight_->value().cols; }
  [[nodiscard]] int64_t outputs() const { return weight_->value().rows; }
  /// Ranks divide its inputs: what it makes of them are parts of sums.
  [[nodiscard]] bool divides_inputs() const { return weight_->spec.cut.axis == Cut::Axis::cols; }

  /// Numbers from now on. An operand whose cast changes starts fresh delayed-scaling state, where
  /// that is its own.
  void set_phase(Run& run, size_t phase);

  /// y = Q(x)·Q(W)ᵀ + b
  [[nodiscard]] Tensor forward(Run& run, Source& x);
  /// dx (+)= Q(dy)·Q(W), dW += Q(dy)ᵀ·Q(x), db += Σ_T dy
  void backward(Run& run, const View& dx, Into into, Source& x, Source& dy);

  // The three GEMMs alone, for a caller that works through the tokens in pieces.
  void fprop(Run& run, const View& y, Source& x, Into into = Into::overwrite);
  void dgrad(Run& run, const View& dx, Into into, Source& x, Source& dy);
  void wgrad(Run& run, const GradientTarget& target, Source& x, Source& dy);
  /// db += Σ_T dy of some tokens, where there is a bias: backward() does it, but not where inputs
  /// are divided, for its dy has been rounded on the way.
  void add_bias_gradient(Run& run, const ConstView& dy);
  /// For a caller of both: makes their operands of dy at once, which may spare reading it twice.
  void make_gradient_operands(Run& run, Source& dy) const;

  /// Whether backward reads of x no more than wgrad's operand, and that takes fewer bytes than x
  /// of so many rows as `element`: then forward may keep it in place of x. Of a layer that no ranks
  /// divide.
  [[nodiscard]] bool reads_kept_input(const Run& run, int64_t rows,
                                      const ElementFormat& element) const;
  /// Makes the operands of x for fprop() and, to be kept, for wgrad() at once, which may spare
  /// reading it twice; for layers with reads_kept_input().
  void make_input_operands(Run& run, Source& x) const;
  /// Shows the newest of x's operands as wgrad()'s, which has no values to compare it with.
  void show_kept_input(Run& run, Source& x) const;
  /// What the newest operand of x for wgrad() is made of: x, or x without its mean.
  [[nodiscard]] Source& kept_input(Run& run, Source& x) const;
  /// Which of x's operands wgrad() reads.
  [[nodiscard]] OperandRequest wgrad_input(const Run& run, int64_t rows, uint32_t tensor) const {
    constexpr OperandRole kRole = OperandRole::wgrad_input;
    return {spec(kRole, rows, run), context(kRole, tensor, run)};
  }

  /// Whether an operand of x has a scale of all of it, in the forward or the backward pass: who
  /// makes x finds its largest magnitude then.
  [[nodiscard]] bool reads_amax_of_input(const Run& run, bool is_backward) const;
  /// The same of dy.
  [[nodiscard]] bool reads_amax_of_gradient(const Run& run) const;

  /// The time of its GEMMs counts as this instead of by what they do.
  void count_time_as(TimeKind kind) { time_ = kind; }

  /// What it adds to the products of this layer, whose weight is frozen; may be null.
  void adapt(std::unique_ptr<Adapter> adapter);
  [[nodiscard]] bool is_frozen() const { return weight_->spec.is_frozen; }

  /// Once a step, when the gradient of what GEMMs read is whole, where it is on this rank: it
  /// becomes the weight's, and the noise learns. backward() does it unless the moment says later.
  void finish_noise_backward(Run& run);

  [[nodiscard]] bool has_noise() const { return noise_.has_value(); }
  // Of a weight with noise, else nothing: LayerNoise::start and finish.
  void start_noise(Run& run) const;
  void finish_noise(Run& run) const;

  /// From now on, and until `false`, the operands of the weight serve all GEMMs.
  void keep_weights(const Run& run, bool keeps);

  /// After a step: next step's scales of delayed operands. A skipped step's amax is forgotten.
  void roll_scales(Run& run, bool skipped);

  /// Who hears of what it works on in training; null: nobody.
  void set_observer(LinearObserver* observer) { observer_ = observer; }
  /// For a caller of wgrad() alone: the sum that its calls gave.
  void show_gradient(const Run& run, const ConstView& sum) const;

  /// Where this layer counts, kOperandRoles entries in backend memory.
  void set_stats(OperandStats* stats) { stats_ = stats; }
  /// The state of its delayed operands as it begins: of each, in the order of the roles, the
  /// encode_scale, 1, and the history, 0.
  [[nodiscard]] std::vector<float> first_state() const;
  /// By OperandRole the longest history of its delayed scale in any phase; 0: it has none.
  [[nodiscard]] std::vector<int> histories() const;
  /// It lies there from now on, as many numbers.
  void place_state(float* memory);
  /// encode_scale and history of a delayed operand; null pointers for others.
  [[nodiscard]] const DelayedScale& delayed(OperandRole role) const {
    return delayed_[static_cast<size_t>(role)];
  }
  [[nodiscard]] const Operand& cast(OperandRole role) const;
  /// Whether the mean of what an operand is made of goes into the GEMM apart. [linear.md 8]
  [[nodiscard]] bool is_centered(OperandRole role) const;
  /// Of x as the forward GEMM read it, where that is all that backward reads of it; 0: it reads x
  /// itself.
  [[nodiscard]] int64_t columns_read() const {
    const bool is_enough = is_from_fprop(OperandRole::wgrad_input) && !dgrad_reads_input();
    return is_enough ? source_cols(OperandRole::wgrad_input) : 0;
  }
  /// Whether the rounding of x lets only a part of its gradient through.
  [[nodiscard]] bool dgrad_reads_input() const {
    return cast(OperandRole::fprop_input).gradient != RoundingGradient::straight;
  }

 private:
  void claim_state(Run& run);
  void share_state_of(const Linear& trained);
  [[nodiscard]] OperandSpec spec(OperandRole role, int64_t tokens, const Run& run) const;
  [[nodiscard]] PrepareContext context(OperandRole role, uint32_t tensor, const Run& run) const;
  /// Where what an operand is made of lies in the whole that ranks divide, for its draws.
  void place_in_whole(OperandRole role, PrepareContext& context) const;
  [[nodiscard]] bool reads_amax(const Run& run, OperandRole role) const;
  using RolePair = std::array<OperandRole, 2>;
  /// Whether two operands of one source of so many rows may be made at once.
  [[nodiscard]] bool can_make_both(const Run& run, const RolePair& roles, int64_t rows) const;
  /// Makes them, of which the first gives the place its name.
  void make_both(Run& run, const RolePair& roles, Source& source) const;
  /// Of a source, as its producer or the ranks that divide it know it; `keeps` the latter.
  void know_amax(Run& run, OperandRole role, Source& source, OperandRequest& request,
                 Tensor& keeps) const;
  /// Of a whole that ranks divide, where the operand's scale is made of it; `keeps` it.
  void share_amax(Run& run, OperandRole role, const ConstView& values, OperandRequest& request,
                  Tensor& keeps) const;
  void show(Run& run, OperandRole role, const Prepared& made, const OperandOrigin& origin) const;
  /// Whether ranks that divide layers have parts of this operand; else all have the same.
  [[nodiscard]] bool is_part(OperandRole role) const;
  [[nodiscard]] TimeKind time_of(TimeKind own) const { return time_.value_or(own); }
  [[nodiscard]] OperandRequest request(const Run& run, OperandRole role,
                                       const Source& source) const;
  [[nodiscard]] const Prepared& activation(Run& run, OperandRole role, Source& source);
  /// What the operand of a role is made of: `source`, or that without its mean. [linear.md 8]
  [[nodiscard]] Source& centered(Run& run, OperandRole role, Source& source) const;
  /// The mean of `source` times what W's operand `w` holds, (1, N) FP32, which every row of the
  /// product lacks; nothing where it lacks nothing.
  [[nodiscard]] Tensor product_of_mean(Run& run, OperandRole role, Source& source,
                                       const Prepared& w) const;
  /// dW += T · mean of dy ⊗ mean of x, where wgrad's operands lack these.
  void add_means(Run& run, const View& dw, Source& x, Source& dy) const;
  [[nodiscard]] Prepared weight_operand(Run& run, OperandRole role);
  /// Whether the forward pass makes dgrad's operand of the weight with its own.
  [[nodiscard]] bool makes_both_of_weight(const Run& run) const;
  void prepare_both_of_weight(Run& run);
  /// Whether a backward operand is made of what the forward GEMM read. [linear.md 3]
  [[nodiscard]] bool is_from_fprop(OperandRole role) const;
  /// Columns of what an operand is made of: of x and W their inputs, or those that the forward
  /// GEMM's transform padded them to.
  [[nodiscard]] int64_t source_cols(OperandRole role) const;
  /// An operand's values, prescale undone, in FP32: P̂.
  [[nodiscard]] Tensor decoded(Run& run, const PackedOperand& packed, OperandRole role) const;
  /// x as the forward GEMM read it.
  [[nodiscard]] Source forward_input(Run& run, Source& x) const;
  /// That product, in the basis of the forward GEMM's transform where the operand of `role` is;
  /// `read` is the forward operand whose gradient it is.
  [[nodiscard]] BackwardProduct backward_product(Run& run, const Gemm& plain, OperandRole role,
                                                 OperandRole read) const;
  /// Where the recipe narrows what a GEMM gives that `target` describes; nothing else. `of`: its
  /// draws.
  [[nodiscard]] std::optional<NarrowOutput> narrowed(Run& run, const GemmRecipe& gemm,
                                                     const Gemm& target, Purpose of) const;
  /// Has it pass by the rounding of x, and of W, where that is not straight.
  void pass_input(Run& run, BackwardProduct& product, Source& x) const;
  void pass_weight(Run& run, BackwardProduct& product);
  /// What GEMMs read, as it is stored: the weight, or with noise on it.
  [[nodiscard]] Stored stored_weight(Run& run) {
    if (!noise_ || run.evaluating()) return weight_->weight.value;
    return noise_->noisy(run, *weight_, stats_of(run, OperandRole::fprop_weight));
  }
  /// The same as operations read it. `as_stored`: its elements without their scales.
  [[nodiscard]] ReadableWeight read_weight(Run& run, const Stored& from, bool as_stored) {
    if (noise_ && run.evaluating() && noise_->quantizes()) return noise_->quiet(run, *weight_);
    ReadableWeight weight = as_stored ? readable_elements(run, from) : readable(run, from);
    if (!weight.copy) weight.copy = weight_->noisy.elements;  // which a kept operand may lie in
    return weight;
  }
  /// Where this pass counts what a cast loses; null: it does not.
  [[nodiscard]] OperandStats* stats_of(const Run& run, OperandRole role) const {
    const bool counts = run.writes_statistics() && stats_ != nullptr;
    return counts ? stats_ + static_cast<size_t>(role) : nullptr;
  }
  [[nodiscard]] bool is_observed(const Run& run) const;
  std::string name_;
  uint32_t output_;
  Parameter* weight_;
  Parameter* bias_;
  std::vector<LinearRecipe> phases_;
  std::optional<LayerNoise> noise_;
  std::unique_ptr<Adapter> adapter_;
  size_t phase_ = 0;
  bool keeps_weights_ = false;
  bool keeps_operands_;
  bool has_own_state_ = true;
  std::array<DelayedScale, kOperandRoles> delayed_{};
  OperandStats* stats_ = nullptr;
  LinearObserver* observer_ = nullptr;
  std::optional<TimeKind> time_;
};

/// Room for the largest magnitude of an x that these layers read.
[[nodiscard]] AmaxSlot slot_of_input(Run& run, std::span<const Linear> layers, bool is_backward);
/// The same of a layer's dy.
[[nodiscard]] AmaxSlot slot_of_gradient(Run& run, const Linear& layer);

/// Room for the sum of `rows` input gradients of layers that read the same x: of x's type, or FP32
/// where several are added that the recipe does not round in between.
[[nodiscard]] Tensor gradient_sum(Run& run, const ConstView& x, int64_t rows,
                                  std::span<const Linear> layers);
}  // namespace ng
