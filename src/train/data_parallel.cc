#include "train/data_parallel.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "run/owned_rows.h"

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
    : run_(run),
      model_(model),
      mode_(mode),
      micros_(micros),
      wires_(run, model),
      trees_(model.parameters().size()) {
  for (int rank = 0; rank < world().ranks(); ++rank)
    nodes_.push_back(is_global() ? nodes_of(rank * micros, micros)
                                 : std::vector<TreeNode>{{0, rank}});
  size_t chunks = 0;
  for (const Parameter& parameter : model.parameters()) {
    first_chunks_.push_back(chunks);
    chunks += static_cast<size_t>((parameter.spec.rows + kPieceRows - 1) / kPieceRows);
  }
  if (is_global() || !is_alone())
    squares_ = {run.persistent_values<double>("squares of rows", chunks), chunks};
  if (is_global())
    losses_ = {run.persistent_values<double>("losses", static_cast<size_t>(micros)),
               static_cast<size_t>(micros)};
}

Moment DataParallel::moment(int64_t step, int64_t micro) const {
  return {.step = static_cast<uint32_t>(step),
          .micro = static_cast<uint32_t>(first_micro() + micro),
          .first_micro = static_cast<uint32_t>(first_micro()),
          .micros = static_cast<uint32_t>(micros_),
          .is_summed_later = is_global() || !is_alone()};
}

// "global" adds the gradients of all micro-batches, "ranks" takes the mean of the ranks' sums.
double DataParallel::target_count(int64_t targets) const {
  return static_cast<double>(targets) / (is_global() ? 1 : run_.comm().ranks());
}

int64_t DataParallel::sum(int64_t of_rank) {
  auto all = static_cast<uint64_t>(of_rank);
  run_.comm().sum(std::span(&all, 1));
  return static_cast<int64_t>(all);
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
    model_.finish_noise_backward(run_);
  } else if (!is_alone()) {
    model_.finish_noise_backward(run_);
    const Run::Unexamined from_others(run_);
    wires_.exchange();
    average_gradients();
  }
  if (run_.recording()) return;
  share_loss(control);
  share_counters();
}

void DataParallel::finish_trees() {
  std::optional<Run::Unexamined> from_others;
  if (!is_alone()) from_others.emplace(run_);
  const std::span<Parameter> parameters = model_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!trees_[i].sums().empty()) to_owners(i, trees_[i], 1.0f);
}

// Those that are sent in other formats have been, as wires.
void DataParallel::average_gradients() {
  const std::span<Parameter> parameters = model_.parameters();
  const auto ranks = static_cast<float>(run_.comm().ranks());
  for (size_t i = 0; i < parameters.size(); ++i) {
    Parameter& parameter = parameters[i];
    if (!parameter.grad || !parameter.communicate.is_fp32()) continue;
    const int rank = owners_of(run_, parameter.spec).rank();
    trees_[i].push({0, rank}, in_fp32(run_, std::exchange(parameter.grad, {})),
                   adding_tensors(run_));
    to_owners(i, trees_[i], 1.0f / ranks);
  }
}

// Each rank has the mean's part by its own tokens of what is whole on all, and the gradient itself
// of what it alone has a part of in its tensor group. The gradient of parameter `index` comes to
// lie in those of owned() that are of it.
void DataParallel::to_owners(size_t index, SumTree<Tensor>& tree, float factor) {
  Comm& owners = owners_of(run_, model_.parameters()[index].spec);
  std::vector<Tensor> sums = sum_at_owners(
      run_, owners, tree, std::span(nodes_).first(static_cast<size_t>(owners.ranks())),
      model_.partition().of(static_cast<int64_t>(index)), factor);
  auto sum = sums.begin();
  for (Parameter* owned : model_.owned_of(index)) owned->grad = std::move(*sum++);
}

void DataParallel::sum_squares(double* sum) {
  run_.execute(Clear{std::as_writable_bytes(std::span(sum, 1))});
  if (squares_.empty()) {
    for (const Parameter& parameter : model_.parameters())
      run_.execute(AddSumOfSquares{sum, parameter.gradient()});
    return;
  }
  run_.execute(Clear{std::as_writable_bytes(squares_)});
  for (size_t i = 0; i < first_chunks_.size(); ++i)
    for (const Parameter* owned : model_.owned_of(i)) {
      size_t chunk = first_chunks_[i] + static_cast<size_t>(owned->first_row / kPieceRows);
      const View grad = owned->gradient();
      for (int64_t row = 0; row < grad.rows; row += kPieceRows, ++chunk)
        run_.execute(AddSumOfSquares{&squares_[chunk],
                                     grad.slice(row, std::min(kPieceRows, grad.rows - row))});
    }
  if (run_.recording()) return;
  std::vector<double> squares = run_.read(std::span<const double>(squares_));
  world().sum(squares);  // each is 0 on all ranks but those that own the rows
  const double total = std::accumulate(squares.begin(), squares.end(), 0.0);
  run_.upload(sum, std::span(&total, 1));
}

void DataParallel::share_decision(StepControl* control) {
  Comm& comm = world();
  if (is_alone() || run_.recording()) return;
  const StepControl own = run_.read(control);
  std::vector<StepControl> all(static_cast<size_t>(comm.ranks()));
  comm.all_gather(Traffic::control, std::as_bytes(std::span(&own, 1)),
                  std::as_writable_bytes(std::span(all)),
                  std::vector<size_t>(all.size(), sizeof own));
  for (const StepControl& of_rank : all) {
    if (of_rank.overflowing == StoredState::none) continue;
    run_.upload(control, std::span(&of_rank, 1));
    return;
  }
}

std::vector<UpdateReport> DataParallel::reports_of_all(const std::vector<UpdateReport>& own) {
  std::vector<UpdateReport> all(model_.parameters().size());
  auto report = own.begin();
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t rows = 0; rows < model_.owned_of(i).size(); ++rows, ++report) {
      UpdateReport& whole = all[i];
      whole.update_squares += report->update_squares;
      whole.target_squares += report->target_squares;
      whole.product += report->product;
      whole.changed += report->changed;
      whole.alpha = report->alpha;  // is of whole tensors
    }
  std::vector<double> sums;  // each is 0 on all ranks but those that own rows
  for (const UpdateReport& r : all)
    sums.insert(sums.end(), {r.update_squares, r.target_squares, r.product,
                             static_cast<double>(r.changed), r.alpha});
  world().sum(sums);
  auto sum = sums.begin();
  for (UpdateReport& r : all) {
    r.update_squares = *sum++;
    r.target_squares = *sum++;
    r.product = *sum++;
    r.changed = static_cast<uint64_t>(*sum++);
    r.alpha = *sum++;
  }
  return all;
}

void DataParallel::share_loss(StepControl* control) {
  if (is_alone() && !is_global()) return;
  Comm& comm = world();
  StepControl all = run_.read(control);
  if (is_global()) {  // the losses of all micro-batches in their order
    const std::vector<double> own = run_.read(std::span<const double>(losses_));
    std::vector<double> losses(static_cast<size_t>(micros_of_all()));
    const std::vector<size_t> bytes(static_cast<size_t>(comm.ranks()), losses_.size_bytes());
    comm.all_gather(Traffic::control, std::as_bytes(std::span(own)),
                    std::as_writable_bytes(std::span(losses)), bytes);
    all.loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  } else {
    comm.sum(std::span(&all.loss, 1));
  }
  run_.upload(control, std::span<const StepControl>(&all, 1));
}

void DataParallel::share_counters() {
  Comm& comm = world();
  if (is_alone()) return;
  std::vector<OperandStats> stats = model_.read_stats(run_);
  static_assert(sizeof(OperandStats) % sizeof(uint64_t) == 0);
  comm.sum(std::span(reinterpret_cast<uint64_t*>(stats.data()),
                     stats.size() * sizeof(OperandStats) / sizeof(uint64_t)));
  run_.upload(model_.stats().data(), std::span<const OperandStats>(stats));
}

void DataParallel::move_gradient_scales(const StepControl* control) {
  if (is_alone())
    model_.move_gradient_scales(run_, control);
  else
    wires_.move_scales(control);
}

BytesByTraffic DataParallel::sent_since(const BytesByTraffic& before) {
  BytesByTraffic sent = run_.ranks().sent();
  for (size_t kind = 0; kind < sent.size(); ++kind) sent[kind] -= before[kind];
  world().sum(std::span<uint64_t>(sent));
  return sent;
}

void DataParallel::share_largest() {
  if (is_alone()) return;
  const std::vector<float*> places = model_.newest_amax();
  std::vector<float> largest;
  for (const float* place : places) largest.push_back(run_.read(place));
  world().max(largest);
  for (size_t i = 0; i < places.size(); ++i)
    run_.upload(places[i], std::span<const float>(&largest[i], 1));
}

}  // namespace ng
