// A decoder-only language model: embedding, blocks, final norm, head. What the blocks are made of
// is declared per architecture (gpt2.cc, llama.cc).
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/partition.h"
#include "model/config.h"
#include "model/recompute.h"
#include "model/weights.h"
#include "nn/embedding.h"
#include "nn/head.h"
#include "nn/layer.h"
#include "nn/norm.h"
#include "recipe/recipe.h"
#include "run/run.h"
#include "run/tensor_table.h"

namespace ng {

/// What the backward pass comes past together: indices of parameters, and linear layers.
struct BackwardPart {
  std::vector<size_t> parameters;
  std::vector<Linear*> linears;
};
/// Called when a micro-batch has no more to add to the gradients of a part.
using PartDone = std::function<void(const BackwardPart&)>;

class Model {
 public:
  /// Allocates the parameters (zero) in `run`. Throws Error where the config is impossible. A model
  /// of a frozen recipe is evaluated beside the one that is `trained`, which outlives it, and
  /// computes with the same numbers: the state of its quantizers is that one's, and so is, unless
  /// the recipe says another, what weights are stored as.
  Model(Run& run, const ModelConfig& config, const Recipe& recipe, RecomputePolicy recompute,
        WeightGather gather = WeightGather::as_sent, const Model* trained = nullptr);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// Those of the architecture in the order of parameter_table(), then what stands beside them.
  [[nodiscard]] std::span<Parameter> parameters() { return parameters_; }
  [[nodiscard]] std::span<const Parameter> parameters() const { return parameters_; }
  /// Which ranks own which rows of parameters(), by index.
  [[nodiscard]] const Partition& partition() const { return partition_; }
  /// What this rank updates: parameters(), or parts of them, in the order of its pieces. A part has
  /// states and a gradient of its own, the value's rows are those of its parameter.
  [[nodiscard]] std::span<Parameter* const> owned() const { return owned_; }
  /// Those of parameters()[index].
  [[nodiscard]] std::span<Parameter* const> owned_of(size_t index) const {
    return owned().subspan(first_owned_[index], first_owned_[index + 1] - first_owned_[index]);
  }
  [[nodiscard]] int64_t parameter_count() const;
  /// Whether it is no whole model by itself: layers are divided, or values are copies, rounded as
  /// they are sent, of those that their owners have.
  [[nodiscard]] bool is_part() const;
  [[nodiscard]] const TensorTable& tensors() const { return tensors_; }
  /// All linear layers, blocks first, the head last.
  [[nodiscard]] const std::vector<Linear*>& linears() const { return linears_; }

  /// Random initial values from purpose 13: matrices N(0, std²), residual output projections
  /// N(0, (std/√(2·layers))²), biases 0, gains 1; and start_noise().
  void initialize(Run& run);

  /// Whether take_values() of the model that is trained gives it all of them.
  [[nodiscard]] bool is_stored_as_trained() const { return recipe_.is_stored_as_trained(); }
  /// Of another model of the same architecture: values that are stored alike become its, bit for
  /// bit. Others stay.
  void take_values(Run& run, const Model& from);

  /// First values of adapters, at which they change nothing: A drawn, B 0.
  void start_adapters(Run& run);
  /// First values of what the noise on weights learns, once the weights have theirs.
  void start_noise(Run& run);

  /// The recipe's phase from now on.
  void set_phase(Run& run, int phase);
  /// In what activations are kept in this phase.
  [[nodiscard]] Compute compute() const { return embedding_->compute(); }

  /// Forward and backward: gradients of the mean loss are added to the parameters' gradients,
  /// *loss += Σ cross-entropy. `done`: of the head, the blocks from the last to the first, and all
  /// else.
  void train_batch(Run& run, const Batch& batch, double* loss, const PartDone& done);
  /// The same for a loss that is a function of the targets' cross-entropies: `weigh` is given them,
  /// (1, T), and what they count in the gradient in place of the mask, to be filled. It captures
  /// two pointers at most: a step takes no memory.
  using Weigh = std::function<void(const View& losses, const View& weights)>;
  void train_batch(Run& run, const Batch& batch, const Weigh& weigh, const PartDone& done);
  /// losses (1, T) = mask·cross-entropy of each target, nothing kept.
  void token_losses(Run& run, const Batch& batch, const View& losses);
  /// *loss += Σ cross-entropy, nothing kept.
  void evaluate_batch(Run& run, const Batch& batch, double* loss);
  /// Logits (T, vocabulary) of all positions, nothing kept. `last_only`: of the last position of
  /// each sequence.
  [[nodiscard]] Tensor logits(Run& run, const Batch& batch, bool last_only = false);

  /// Row `row` of parameter `index` as FP32 on the host, where no ranks divide it; and into it, or
  /// what this rank has of it, rounded to nearest even: all rows of a parameter in order.
  void read_row(const Run& run, size_t index, int64_t row, std::span<float> values) const;
  void write_row(Run& run, size_t index, int64_t row, std::span<const float> values);

  /// Where the moment says that gradients are whole later (Moment::is_summed_later) and they are
  /// now: what the noise on weights learns gets its own, from the weights' that are on this rank.
  void finish_noise_backward(Run& run);
  static void finish_noise_backward(Run& run, const BackwardPart& part);
  [[nodiscard]] const GradientRecipe& gradient_recipe() const {
    return recipe_.settings(0).gradient;
  }
  /// After the last micro-batch: gradients of what the noise on weights learns are whole.
  void finish_noise(Run& run);
  /// After the step was decided: scales of gradients that saturate give way.
  void move_gradient_scales(Run& run, const StepControl* control);
  /// After masters were read: values that no checkpoint has are made of them, on all ranks.
  void copy_masters(Run& run);
  /// After the update: gradients and operands made from the old weights are gone.
  void forget_step();
  /// The largest value so far of every operand whose scale is delayed, in backend memory.
  [[nodiscard]] std::vector<float*> newest_amax() const;
  /// After a step: delayed scales move on; a skipped step leaves no trace in them.
  void roll_scales(Run& run, bool skipped);

  /// Counters of every operand of every linear layer, by linears() and role, in backend memory.
  [[nodiscard]] std::span<OperandStats> stats() { return stats_; }
  /// The same on the host.
  [[nodiscard]] std::vector<OperandStats> read_stats(const Run& run) const {
    return run.read(std::span<const OperandStats>(stats_));
  }

 private:
  void make_parameters(Run& run, WeightGather gather, const Model* trained);
  void claim_pieces(Run& run, int64_t index, const KeptWeight& kept);
  void put_values(Run& run, size_t index, const View& values);
  void send_value(Run& run, size_t index);
  void allocate_stats(Run& run);
  void accumulate_in_bf16();
  void communicate_gradients(Run& run);
  void divide_backward();
  void fill_initial(Run& run, const Parameter& parameter, const View& values) const;
  [[nodiscard]] Tensor hidden(Run& run, const Batch& batch);
  /// Forward to the head's input, then backward from its gradient.
  template <class ThroughHead>
  void forward_backward(Run& run, const Batch& batch, const ThroughHead& through_head,
                        const PartDone& done);

  ModelConfig config_;
  Recipe recipe_;
  TensorTable tensors_;
  std::vector<Parameter> parameters_;
  Partition partition_;
  std::deque<Parameter> parts_;  // of parameters that have several owners
  std::vector<Parameter*> owned_;
  std::vector<size_t> first_owned_{0};  // by parameter, and the end of the last
  std::vector<float> pending_;          // rows of a parameter that is being written
  Chain blocks_;
  std::unique_ptr<Embedding> embedding_;
  std::unique_ptr<NormLayer> norm_;
  std::unique_ptr<Head> head_;
  std::vector<Linear*> linears_;
  std::span<OperandStats> stats_;
  std::vector<BackwardPart> of_blocks_;
  BackwardPart of_head_, of_rest_;
};

}  // namespace ng
