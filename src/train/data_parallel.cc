#include "train/data_parallel.h"

#include <numeric>
#include <utility>

#include "run/rank_sum.h"

namespace ng {
namespace {

Tensor in_fp32(Run& run, Tensor tensor) {
  const View view = tensor.view();
  if (view.is(fp32_format())) return tensor;
  Tensor wide = run.tensor(view.rows, view.cols, fp32_format(), MemoryKind::gradients);
  run.execute(Copy{.y = wide, .x = view});
  return wide;
}

}  // namespace

DataParallel::DataParallel(Run& run, Model& model, Determinism mode, int64_t micros)
    : run_(run), model_(model), mode_(mode), micros_(micros), trees_(model.parameters().size()) {
  for (int rank = 0; rank < run.comm().ranks(); ++rank)
    nodes_.push_back(is_global() ? nodes_of(rank * micros, micros)
                                 : std::vector<TreeNode>{{0, rank}});
  if (is_global())
    losses_ = {run.persistent_values<double>("losses", static_cast<size_t>(micros)),
               static_cast<size_t>(micros)};
}

Moment DataParallel::moment(int64_t step, int64_t micro) const {
  return {.step = static_cast<uint32_t>(step),
          .micro = static_cast<uint32_t>(first_micro() + micro),
          .first_micro = static_cast<uint32_t>(first_micro()),
          .micros = static_cast<uint32_t>(micros_),
          .is_summed_later = is_global()};
}

// "global" adds the gradients of all micro-batches, "ranks" takes the mean of the ranks' sums.
double DataParallel::target_count(int64_t tokens) const {
  return static_cast<double>(tokens * (is_global() ? micros_of_all() : micros_));
}

void DataParallel::start(StepControl* control) {
  run_.execute(Clear{std::as_writable_bytes(std::span(control, 1))});
  if (is_global()) run_.execute(Clear{std::as_writable_bytes(losses_)});
}

double* DataParallel::loss(StepControl* control, int64_t micro) const {
  return is_global() ? &losses_[static_cast<size_t>(micro)] : &control->loss;
}

void DataParallel::take(int64_t micro) {
  if (!is_global()) return;
  const std::span<Parameter> parameters = model_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].grad)
      trees_[i].push({0, first_micro() + micro}, std::exchange(parameters[i].grad, {}),
                     adding_tensors(run_));
}

void DataParallel::finish(StepControl* control) {
  if (is_global()) {
    finish_trees();
    model_.finish_gradients(run_);
  } else if (run_.comm().ranks() > 1) {
    average_gradients();
  }
  if (run_.recording()) return;
  share_loss(control);
  share_counters();
}

void DataParallel::finish_trees() {
  const std::span<Parameter> parameters = model_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!trees_[i].sums().empty()) parameters[i].grad = sum_over_ranks(run_, trees_[i], nodes_);
}

// Those that are sent in other formats have been: by finish_gradient.
void DataParallel::average_gradients() {
  const int ranks = run_.comm().ranks();
  for (Parameter& parameter : model_.parameters()) {
    if (!parameter.grad || !parameter.communicate.is_fp32()) continue;
    SumTree<Tensor>& tree = trees_.front();
    tree.push({0, run_.comm().rank()}, in_fp32(run_, std::exchange(parameter.grad, {})),
              adding_tensors(run_));
    parameter.grad = sum_over_ranks(run_, tree, nodes_);
    const View sum = parameter.grad;
    run_.execute(Combine{.y = sum, .x = sum, .a = 1.0f / static_cast<float>(ranks), .b = 0});
  }
}

void DataParallel::share_loss(StepControl* control) {
  Comm& comm = run_.comm();
  StepControl all = run_.read(control);
  if (is_global()) {  // the losses of all micro-batches in their order
    const std::vector<double> own = run_.read(std::span<const double>(losses_));
    std::vector<double> losses(static_cast<size_t>(micros_of_all()));
    const std::vector<size_t> bytes(static_cast<size_t>(comm.ranks()), losses_.size_bytes());
    comm.all_gather(Traffic::control, std::as_bytes(std::span(own)),
                    std::as_writable_bytes(std::span(losses)), bytes);
    all.loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  } else if (comm.ranks() > 1) {
    comm.sum(std::span(&all.loss, 1));
  } else {
    return;
  }
  run_.upload(control, std::span<const StepControl>(&all, 1));
}

void DataParallel::share_counters() {
  Comm& comm = run_.comm();
  if (comm.ranks() == 1) return;
  std::vector<OperandStats> stats = model_.read_stats(run_);
  static_assert(sizeof(OperandStats) % sizeof(uint64_t) == 0);
  comm.sum(std::span(reinterpret_cast<uint64_t*>(stats.data()),
                     stats.size() * sizeof(OperandStats) / sizeof(uint64_t)));
  run_.upload(model_.stats().data(), std::span<const OperandStats>(stats));
}

void DataParallel::share_largest() {
  if (run_.comm().ranks() == 1) return;
  const std::vector<float*> places = model_.newest_amax();
  std::vector<float> largest;
  for (const float* place : places) largest.push_back(run_.read(place));
  run_.comm().max(largest);
  for (size_t i = 0; i < places.size(); ++i)
    run_.upload(places[i], std::span<const float>(&largest[i], 1));
}

}  // namespace ng
