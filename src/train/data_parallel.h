// One step on several ranks, each with its own micro-batches: gradients, loss and counters become
// those of the whole batch. [distributed.md §1, §4; recipes.md §4.2]
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "comm/background_comm.h"
#include "model/model.h"
#include "run/owned_rows.h"
#include "run/run.h"
#include "train/gradient_stream.h"

namespace ng {

/// For what the bits of a run are the same.
enum class Determinism : uint8_t {
  ranks,   ///< for one number of ranks; gradients are sent as the recipe says
  global,  ///< for every number of ranks at an equal global batch: gradients are added by a fixed
           ///< tree over micro-batches and are sent in FP32
};

/// What depends on no number of ranks has every bit of the weights on all of them.
[[nodiscard]] constexpr WeightGather weight_gather(Determinism mode) {
  return mode == Determinism::global ? WeightGather::as_stored : WeightGather::as_sent;
}

class DataParallel {
 public:
  /// `micros`: micro-batches of each rank in a step.
  DataParallel(Run& run, Model& model, Determinism mode, int64_t micros);

  [[nodiscard]] int64_t micros_of_all() const { return micros_ * run_.comm().ranks(); }
  [[nodiscard]] int64_t first_micro() const { return micros_ * run_.comm().rank(); }
  [[nodiscard]] Moment moment(int64_t step, int64_t micro) const;
  /// What a micro-batch divides the sum of its losses by, so that gradients come out as those of
  /// the mean over the `targets` of all ranks.
  [[nodiscard]] double target_count(int64_t targets) const;
  /// Of the numbers of all ranks.
  [[nodiscard]] int64_t sum(int64_t of_rank);

  /// Whether what it does in a step are operations alone: nothing is sent, and no sum is the
  /// host's.
  [[nodiscard]] bool is_left_to_backend() const { return is_alone() && !is_global(); }

  /// Before the first micro-batch of a step: no loss yet.
  void start(StepControl* control);
  /// Where micro-batch `micro` of this rank adds its loss.
  [[nodiscard]] double* loss(StepControl* control, int64_t micro) const;
  /// Whether take() does the same to the memory of all micro-batches between the first and the
  /// last, so that a dry run need not do all of them.
  [[nodiscard]] bool takes_all_alike() const { return !is_global() || keeps_sums_; }
  /// Before the last micro-batch, `micro`: what a dry run that left some out has not added up.
  void pass_to(int64_t micro);
  /// When micro-batch `micro` of this rank has no more to add to the gradients of a part.
  void take(int64_t micro, const BackwardPart& part);
  /// After the last one: gradients, loss and the counters of operands are those of all ranks.
  void finish(StepControl* control);
  /// *sum = Σ g² over the gradients of all parameters. Where several ranks have them, or gradients
  /// do not depend on ranks, the squares of kPieceRows rows each are added in the order of rows.
  void sum_squares(double* sum);
  /// After the checks of updates: what one rank refuses all skip.
  void share_decision(StepControl* control);
  /// After the step was decided: scales of gradients that saturate give way.
  void move_gradient_scales(const StepControl* control);
  /// After this rank's updates of what it owns of a parameter, by all ranks in the same order.
  void send_updated(size_t index);
  /// After the last one: all ranks have the new values.
  void finish_sending();
  /// By model.parameters(), of reports by this rank's model.owned().
  [[nodiscard]] std::vector<UpdateReport> reports_of_all(const std::vector<UpdateReport>& own);
  /// What all ranks together have sent since this rank's counters said `before`.
  [[nodiscard]] BytesByTraffic sent_since(const BytesByTraffic& before);
  /// Of messages behind the computing of this rank, so far.
  [[nodiscard]] ExchangeSeconds seconds() const;
  /// When nobody reads the step's gradients any more.
  void forget_step();
  /// Before delayed scales move on: what they follow is the largest value of all ranks.
  void share_largest();

 private:
  [[nodiscard]] bool is_global() const { return mode_ == Determinism::global; }
  /// Ranks that have the same parts of parameters, and what passes between them.
  struct Group {
    Comm& comm;
    std::unique_ptr<BackgroundComm> background;  ///< null: one rank
    GradientStream gradients;
    RowMessages updated{};  ///< not sent yet
    BackgroundComm::Ticket sending = 0;
  };
  /// All ranks; run_.comm() are those that divide the batch.
  [[nodiscard]] Comm& world() const { return run_.ranks().world(); }
  [[nodiscard]] bool is_alone() const { return world().ranks() == 1; }
  [[nodiscard]] std::vector<std::vector<TreeNode>> nodes_by_rank(const Comm& comm) const;
  void add_group(Comm& comm);
  [[nodiscard]] size_t group_of(size_t index) const;
  [[nodiscard]] std::vector<size_t> of_group(const BackwardPart& part, size_t group) const;
  void start_sending(Group& group);
  void share_loss(StepControl* control);
  void share_counters();

  Run& run_;
  Model& model_;
  Determinism mode_;
  int64_t micros_;
  bool keeps_sums_;  ///< of "global" with many micro-batches
  /// Of all ranks; where those of a tensor group have parts of layers, also of those with the same
  /// part.
  std::deque<Group> groups_;
  std::vector<size_t> first_chunks_;  // by parameter, of its rows among squares_
  std::span<double> squares_;         // backend memory, by kPieceRows rows
  std::span<double> losses_;          // backend memory, by micro-batch; global only
};

}  // namespace ng
