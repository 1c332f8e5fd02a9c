#include "train/data_parallel.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "comm/agreement.h"
#include "comm/memory_messages.h"

namespace ng {
namespace {

// Of a message with new values.
constexpr int64_t kMessageElements = int64_t{1} << 22;

// So many a dry run goes through one by one, and sums lie where gradients came to be. Of more than
// that they are kept in tensors of their own, which takes a copy of each gradient.
constexpr int64_t kMicrosInPlace = 64;

}  // namespace

DataParallel::DataParallel(Run& run, Model& model, Determinism mode, int64_t micros)
    : run_(run),
      model_(model),
      mode_(mode),
      micros_(micros),
      keeps_sums_(is_global() && micros > kMicrosInPlace) {
  add_group(world());
  if (run.tensor_group().ranks() > 1) add_group(run.comm());
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

// "global" adds what micro-batches come to, "ranks" what ranks come to.
std::vector<std::vector<TreeNode>> DataParallel::nodes_by_rank(const Comm& comm) const {
  std::vector<std::vector<TreeNode>> nodes;
  for (int rank = 0; rank < comm.ranks(); ++rank)
    nodes.push_back(is_global() ? nodes_of(rank * micros_, micros_)
                                : std::vector<TreeNode>{{0, rank}});
  return nodes;
}

// Each rank has the mean's part by its own tokens of what is whole on all, and the gradient itself
// of what it alone has a part of in its tensor group: both divide by the ranks that divide the
// batch.
void DataParallel::add_group(Comm& comm) {
  auto background = is_alone() ? nullptr : std::make_unique<BackgroundComm>(comm);
  const float factor = is_global() ? 1.0f : 1.0f / static_cast<float>(run_.comm().ranks());
  GradientStream::Ranks ranks{
      .owners = &comm,
      .background = background.get(),
      .all = groups_.empty() ? background.get() : groups_.front().background.get()};
  groups_.push_back({.comm = comm,
                     .background = std::move(background),
                     .gradients = {run_, model_, ranks, nodes_by_rank(comm), factor}});
  if (keeps_sums_) groups_.back().gradients.keep_sums(most_sums_of(first_micro(), micros_));
}

size_t DataParallel::group_of(size_t index) const {
  return model_.parameters()[index].spec.cut ? 1 : 0;
}

std::vector<size_t> DataParallel::of_group(const BackwardPart& part, size_t group) const {
  std::vector<size_t> own;
  for (const size_t index : part.parameters)
    if (group_of(index) == group) own.push_back(index);
  return own;
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
  for (Group& group : groups_) group.gradients.start();
}

double* DataParallel::loss(StepControl* control, int64_t micro) const {
  return is_global() ? &losses_[static_cast<size_t>(micro)] : &control->loss;
}

void DataParallel::take(int64_t micro, const BackwardPart& part) {
  const bool is_last = micro + 1 == micros_;
  if (is_global())
    for (const size_t i : part.parameters)
      groups_[group_of(i)].gradients.add(i, {0, first_micro() + micro});
  if (!is_last || (is_alone() && !is_global())) return;
  if (!is_global()) {
    Model::finish_noise_backward(run_, part);
    for (const size_t i : part.parameters) {
      Group& group = groups_[group_of(i)];
      group.gradients.add(i, {0, group.comm.rank()});
    }
  }
  std::optional<Run::Unexamined> from_others;
  if (!is_alone()) from_others.emplace(run_);
  for (size_t group = 0; group < groups_.size(); ++group)
    groups_[group].gradients.send(of_group(part, group));
}

void DataParallel::pass_to(int64_t micro) {
  if (!keeps_sums_ || !run_.recording()) return;
  for (Group& group : groups_) group.gradients.pass_to(nodes_of(first_micro(), micro));
}

void DataParallel::forget_step() {
  for (Group& group : groups_) group.gradients.forget();
}

void DataParallel::finish(StepControl* control) {
  {
    std::optional<Run::Unexamined> from_others;
    if (!is_alone()) from_others.emplace(run_);
    for (Group& group : groups_) group.gradients.finish();
  }
  if (is_global()) model_.finish_noise_backward(run_);
  if (run_.recording()) return;
  share_loss(control);
  share_counters();
}

void DataParallel::sum_squares(double* sum) {
  run_.execute(Clear{std::as_writable_bytes(std::span(sum, 1))});
  if (squares_.empty()) {
    for (const Parameter& parameter : model_.parameters())
      if (!parameter.spec.is_frozen) run_.execute(AddSumOfSquares{sum, parameter.gradient()});
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
  if (is_alone() || run_.recording()) return;
  const StepControl own = run_.read(control);
  for (const StepControl& of_rank : gathered(world(), std::span(&own, 1))) {
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
    const std::vector<double> losses = gathered(comm, std::span(own));
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
    groups_.back().gradients.move_scales(control);  // those of layers, which ranks may divide
}

void DataParallel::send_updated(size_t index) {
  if (is_alone() || run_.recording()) return;
  Group& group = groups_[group_of(index)];
  if (group.comm.ranks() == 1) return;
  group.updated.add(group.comm, model_.parameters()[index].value(),
                    model_.partition().of(static_cast<int64_t>(index)));
  if (group.updated.elements >= kMessageElements) start_sending(group);
}

void DataParallel::start_sending(Group& group) {
  auto messages = std::make_shared<RowMessages>(std::exchange(group.updated, {}));
  group.sending = group.background->start([messages, &backend = run_.backend()](Comm& comm) {
    exchange(comm, backend, messages->out, messages->in);
  });
}

void DataParallel::finish_sending() {
  if (is_alone() || run_.recording()) return;
  for (Group& group : groups_) start_sending(group);
  for (Group& group : groups_) group.background->wait(group.sending);
}

ExchangeSeconds DataParallel::seconds() const {
  ExchangeSeconds sum;
  for (const Group& group : groups_) {
    if (group.background == nullptr) continue;
    const ExchangeSeconds seconds = group.background->seconds();
    sum.busy += seconds.busy;
    sum.waited += seconds.waited;
  }
  return sum;
}

BytesByTraffic DataParallel::sent_since(const BytesByTraffic& before) {
  BytesByTraffic sent = since(before, run_.ranks().sent());
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
