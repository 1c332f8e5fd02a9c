#include "speed/operation_times.h"

#include <algorithm>
#include <chrono>

#include "backend/wrapped_backend.h"
#include "base/median.h"
#include "speed/planned_step.h"

namespace ng {
namespace {

constexpr uint64_t kSeed = 1;
constexpr double kLargeWork = 1e6;  // from which on time is in proportion

/// What grows with a vocabulary: its time grows as its work does. Muon's products are no such.
bool is_in_proportion(const StepOutline::Row& row) {
  switch (row.time) {
    case TimeKind::head_and_loss:
    case TimeKind::embedding:
    case TimeKind::quantize:
    case TimeKind::elementwise:
      return true;
    case TimeKind::optimizer:
      return !row.key.kind.starts_with(Gemm::kName);
    default:
      return false;
  }
}

StepSettings settings_of(const BenchShape& shape) {
  return {.sequences = shape.batch, .length = shape.length, .micros = 1, .optimizer = {}};
}

}  // namespace

StepOutline outline_step(const Backend& backend, const ModelConfig& config, const Recipe& recipe,
                         const BenchShape& shape) {
  StepOutline outline;
  std::unordered_map<std::string, size_t> places;  // of texts in its rows
  outline.memory = plan_step(backend, config, recipe, shape, [&](const Operation& operation) {
    OperationKey key = key_of(operation);
    const auto [at, is_new] = places.emplace(key.text, outline.rows.size());
    if (is_new) outline.rows.push_back({std::move(key), time_of(operation), 0});
    ++outline.rows[at->second].count;
  });
  return outline;
}

/// Does what its backend does, and notes how long it took. What takes long and is known is not done
/// again: others only need numbers to work on.
class OperationTimes::Noting final : public WrappedBackend {
 public:
  Noting(std::unique_ptr<Backend> backend, const OperationTimes& known)
      : WrappedBackend(std::move(backend)), known_(known.seconds_) {}
  /// What is touched here for the first time costs no operation time. A card's memory is there.
  std::byte* allocate(size_t bytes) override {
    constexpr size_t kPage = 4096;
    std::byte* memory = WrappedBackend::allocate(bytes);
    if (!is_in_hosts_reach()) return memory;
    const std::byte zero{};
    for (size_t at = 0; at < bytes; at += kPage) WrappedBackend::upload(memory + at, &zero, 1);
    return memory;
  }
  void execute(const Operation& operation) override {
    const OperationKey key = key_of(operation);
    if (const auto known = known_.find(key.text); known != known_.end() && known->second > kShort)
      if (stands_in(operation)) return;
    const double before = now();
    WrappedBackend::execute(operation);
    seconds_[key.text].push_back(now() - before);
    keys_.emplace(key.text, key);
  }
  void clear() {
    seconds_.clear();
    keys_.clear();
  }
  void give_to(OperationTimes& times) const { times.take(seconds_, keys_); }

 private:
  static constexpr double kShort = 1e-4;  // seconds

  /// By a card's own clock, which waits for it, where it has one: the host only launches.
  double now() {
    if (measures_seconds()) return total_seconds(measured_seconds());
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  /// Puts numbers of a gradient's size where the operation would put its own. False where it must
  /// be done: casts, whose readers need codes.
  bool stands_in(const Operation& operation) {
    const TimeKind time = time_of(operation);
    if (time == TimeKind::quantize || time == TimeKind::weight_noise) return false;
    if (time == TimeKind::optimizer) return true;  // weights stay what they are
    for_each_output(operation, [&](std::string_view, const View& view) {
      if (view.rows > 0 && !view.has_scales() && view.element->bits >= 16)
        WrappedBackend::execute(Fill{.x = view, .value = 0.01f});
    });
    return true;
  }

  const std::unordered_map<std::string, double> known_;
  std::unordered_map<std::string, std::vector<double>> seconds_;
  std::unordered_map<std::string, OperationKey> keys_;
};

void OperationTimes::take(const std::unordered_map<std::string, std::vector<double>>& seconds,
                          const std::unordered_map<std::string, OperationKey>& keys) {
  for (const auto& [text, samples] : seconds) {
    const double each = median(samples);
    if (!seconds_.emplace(text, each).second) continue;
    const OperationKey& key = keys.at(text);
    Rate& rate = rates_[key.kind];
    if (key.work > rate.work) rate = {key.work, each / key.work};
  }
}

void OperationTimes::measure(std::unique_ptr<Backend> backend, const ModelConfig& config,
                             const Recipe& recipe, const BenchShape& shape) {
  auto noting = std::make_unique<Noting>(std::move(backend), *this);
  Noting& noted = *noting;
  Run run(std::move(noting), kSeed);
  Model model(run, config, recipe, RecomputePolicy::none);
  Trainer trainer(run, model, recipe, settings_of(shape));
  model.initialize(run);
  const int64_t warmup = seconds_.empty() ? 2 : 0;  // the program was not at work before
  for (int64_t step = 0; step < warmup + shape.steps; ++step) {
    if (step > 0 && step == warmup) noted.clear();
    fill_random_tokens(trainer.train_tokens(0), shape, config.vocab, step, 0);
    (void)trainer.step(step, kBenchRate);
  }
  noted.give_to(*this);
}

bool OperationTimes::knows(const StepOutline::Row& row) const {
  if (seconds_.contains(row.key.text)) return true;
  const auto rate = rates_.find(row.key.kind);
  return is_in_proportion(row) && rate != rates_.end() && rate->second.work > kLargeWork;
}

bool OperationTimes::knows(const StepOutline& step) const {
  return std::all_of(step.rows.begin(), step.rows.end(),
                     [this](const StepOutline::Row& row) { return knows(row); });
}

bool OperationTimes::would_know(const StepOutline& step, const StepOutline& measured) const {
  OperationTimes with;
  for (const StepOutline::Row& row : measured.rows) {
    with.seconds_.emplace(row.key.text, 0.0);
    with.rates_.emplace(row.key.kind, Rate{row.key.work, 0});
  }
  return std::all_of(step.rows.begin(), step.rows.end(),
                     [&](const StepOutline::Row& row) { return knows(row) || with.knows(row); });
}

double OperationTimes::seconds(const StepOutline::Row& row) const {
  const auto known = seconds_.find(row.key.text);
  if (known != seconds_.end()) return known->second;
  return rates_.at(row.key.kind).seconds_per_work * row.key.work;
}

TimeByKind OperationTimes::seconds(const StepOutline& step) const {
  TimeByKind all{};
  for (const StepOutline::Row& row : step.rows)
    all[static_cast<size_t>(row.time)] += static_cast<double>(row.count) * seconds(row);
  return all;
}

}  // namespace ng
