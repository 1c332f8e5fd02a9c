// Gradients on their way to the owners of their rows while the backward pass goes on: a few tensors
// at a time, as they become whole. Each rank sends its own, in FP32 or rounded by a scale that all
// share; their owners add them up, in an order that no transport decides. [distributed.md §1;
// recipes.md §4.2; errata-2, 27-33]
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "comm/background_comm.h"
#include "comm/sum_tree.h"
#include "model/model.h"
#include "run/run.h"

namespace ng {

class GradientStream {
 public:
  /// Between which ranks; what is pointed to outlives it.
  struct Ranks {
    Comm* owners = nullptr;                ///< among which rows are dealt
    BackgroundComm* background = nullptr;  ///< of those; null: this process is alone
    BackgroundComm* all = nullptr;  ///< of all that have parts of the same tensors, or the same
  };
  /// FP32 gradients become `factor` times the sum over `nodes`, which are by rank of the owners:
  /// those that add() has made of this rank's. What is sent otherwise becomes the mean over ranks.
  GradientStream(Run& run, Model& model, const Ranks& ranks,
                 std::vector<std::vector<TreeNode>> nodes, float factor);

  /// From the next start() on sums lie in `count` tensors of each parameter that live until
  /// forget(), so that every add() takes the same memory, whatever is added up by it.
  void keep_sums(size_t count) { kept_ = count; }

  /// Before the first gradient of a step.
  void start();
  /// The gradient of a parameter is one of the terms of its sum.
  void add(size_t index, TreeNode node);
  /// Where sums are kept, of a dry run that left terms out: as after all those of `nodes`.
  void pass_to(const std::vector<TreeNode>& nodes);
  /// No terms of these parameters' gradients are to come. Called by all ranks in the same order.
  void send(std::span<const size_t> parameters);
  /// All gradients come to lie in model.owned().
  void finish();
  /// After the step: nothing is kept.
  void forget();
  /// After the step was decided: scales that saturate give way, by the counts of all ranks.
  void move_scales(const StepControl* control);

 private:
  /// A gradient as this rank sends it.
  struct Encoded {
    std::vector<SumTree<Tensor>::Sum> sums;  ///< in FP32
    View rounded;                            ///< or rounded, with the scales that travel
    Tensor codes;                            ///< what that lies in
    std::array<Tensor, 2> scales;
  };
  /// Rows of a parameter that travel together.
  struct Range {
    size_t index = 0;
    int64_t first_row = 0, rows = 0;
  };
  struct Sent {
    Range range;
    std::shared_ptr<Encoded> mine;
    Tensor from_others;
    /// What this rank owns of the range; and what came, or lies here, of it: by rank, and node.
    std::vector<Piece> pieces;
    std::vector<std::vector<std::vector<View>>> terms;
  };
  struct Bucket {
    std::vector<Range> ranges;
    std::shared_ptr<std::vector<float>> amax;  ///< of all ranks, once it is there
    std::vector<Sent> sent;
    BackgroundComm::Ticket ticket = 0;
  };
  struct Messages {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
  };

  [[nodiscard]] Parameter& parameter(size_t index) { return model_.parameters()[index]; }
  [[nodiscard]] bool is_narrow(size_t index) { return !parameter(index).communicate.is_fp32(); }
  [[nodiscard]] bool shares_scale(size_t index);
  [[nodiscard]] bool is_alone() const { return ranks_.background == nullptr; }
  /// a += b, every sum rounded once to FP32; where sums are kept, the place of b is free then.
  [[nodiscard]] auto adding(size_t index);
  /// A gradient where sums are kept, else where it lies.
  [[nodiscard]] Tensor placed_sum(size_t index, Tensor gradient);
  void begin(std::vector<Range> ranges);
  void find_scales(Bucket& bucket);
  void take_scales(const Bucket& bucket);
  void dispatch(Bucket bucket);
  [[nodiscard]] Encoded encode(size_t index);
  [[nodiscard]] View term_of_mine(const Sent& sent, size_t node, const Piece& piece);
  void lay_out(Sent& sent, Messages& messages);
  void receive(Sent& sent, const Piece& piece, Messages& messages, std::byte*& at);
  void arrive(Bucket& bucket);
  [[nodiscard]] View rows_of_mean(size_t index, const Piece& piece);
  void add_up(const Sent& sent, size_t piece, const View& y);
  void take_mean(const Sent& sent, size_t piece, const View& y);

  Run& run_;
  Model& model_;
  Ranks ranks_;
  std::vector<std::vector<TreeNode>> nodes_;
  float factor_;
  std::vector<SumTree<Tensor>> trees_;                 // by parameter
  size_t kept_ = 0;                                    // tensors for sums, of each parameter
  std::vector<std::vector<Tensor>> sums_, free_sums_;  // those, by parameter
  int64_t bucket_elements_;
  std::map<size_t, std::shared_ptr<Encoded>> encoded_;  // of which rows are still to be sent
  std::deque<Bucket> scaling_, travelling_;
  std::span<float> amax_;          // backend memory, by parameter; of all ranks
  std::span<uint64_t> saturated_;  // backend memory, by parameter, as this rank counted them
};

}  // namespace ng
