#include "run/run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "format/dynamic_map.h"

namespace ng {

Run::Run(std::unique_ptr<Backend> backend, uint64_t seed, uint64_t twin, Comm* world,
         int64_t tensor_ranks)
    : backend_(std::move(backend)),
      seed_(seed),
      twin_(twin),
      ranks_(world, static_cast<int>(tensor_ranks)) {
  nonfinite_ = persistent_values<uint64_t>("nonfinite", 1);
}

namespace {

std::string place_in_register(const PersistentSpec& spec) {
  return fmt::format("{}:{}", spec.name, spec.first_row);
}

/// Zeros by a map, in which the first code is the lowest value.
void fill_with_zero_codes(Run& run, const View& x) {
  const bool is_positive = x.scales.coding == Coding::positive_dynamic;
  const std::vector<uint8_t> row(static_cast<size_t>(x.stride),
                                 DynamicMap::of(is_positive).code_of_zero());
  for (int64_t r = 0; r < x.rows; ++r)
    run.upload(reinterpret_cast<uint8_t*>(x.data) + r * x.stride, std::span(row));
}

}  // namespace

Run::~Run() {
  saved_.clear();
  release_from(0);
  if (!arena_memory_.empty()) backend_->release(arena_memory_.data(), arena_memory_.size());
}

void Run::execute(const Operation& operation) {
  if (recording()) return backend_->require(operation);
  if (diagnosing_) examine(operation, true);
  if (backend_->measures_seconds()) {
    backend_->execute(operation);
  } else {
    // Two clock reads per whole-tensor operation cost well under 1 % of it.
    const auto start = std::chrono::steady_clock::now();
    backend_->execute(operation);
    seconds_[static_cast<size_t>(time_of(operation))] +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (diagnosing_) examine(operation, false);
}

TimeByKind Run::seconds() const {
  if (!backend_->measures_seconds()) return seconds_;
  TimeByKind all = seconds_;
  const TimeByKind measured = backend_->measured_seconds();
  for (size_t kind = 0; kind < kTimeKinds; ++kind)
    all[kind] += measured[kind] - measured_before_[kind];
  return all;
}

void Run::reset_seconds() {
  seconds_ = {};
  measured_before_ = backend_->measured_seconds();
}

void Run::begin_record() {
  saved_.clear();
  most_saved_ = 0;
  arena_.start_recording();
}

Program Run::end_record() {
  NG_CHECK(saved_.empty(), saved_.size());
  Program program = arena_.finish_recording();
  program.most_saved = most_saved_;
  return program;
}

void Run::reserve(const std::vector<const Program*>& programs) {
  size_t bytes = 0, slots = 0;
  for (const Program* program : programs) {
    bytes = std::max(bytes, program->bytes);
    slots = std::max(slots, program->slots.size());
    saved_.reserve(std::max(saved_.capacity(), program->most_saved));
  }
  arena_.reserve(slots);
  if (bytes <= arena_memory_.size()) return;
  if (!arena_memory_.empty()) backend_->release(arena_memory_.data(), arena_memory_.size());
  backend_->forget_repeated_steps();
  arena_memory_ = {};
  arena_memory_ = {backend_->allocate(bytes), bytes};
}

void Run::begin_replay(const Program& program) {
  NG_CHECK(program.bytes <= arena_memory_.size(), program.bytes, arena_memory_.size());
  saved_.clear();
  arena_.start_replay(program, arena_memory_.data());
}

void Run::end_replay() {
  NG_CHECK(saved_.empty(), saved_.size());
  arena_.finish_replay();
}

std::span<std::byte> Run::take(std::string name, size_t bytes, MemoryKind kind) {
  const size_t rounded = persistent_bytes(bytes);
  const std::span<std::byte> memory(backend_->allocate(rounded), rounded);
  Persistent row{.spec = {}, .view = {}, .memory = memory};
  row.spec.name = std::move(name);
  row.spec.kind = kind;
  row.spec.is_saved = false;
  persistents_.push_back(std::move(row));
  return memory;
}

void Run::release_from(size_t first) {
  for (size_t i = first; i < persistents_.size(); ++i) {
    const Persistent& row = persistents_[i];
    if (row.spec.element != nullptr) names_.erase(place_in_register(row.spec));
    backend_->release(row.memory.data(), row.memory.size());
  }
  persistents_.resize(first);
}

View Run::persistent(const PersistentSpec& spec) {
  NG_CHECK(spec.rows >= 0 && spec.cols >= 0 && spec.element != nullptr, spec.name, spec.rows,
           spec.cols);
  NG_CHECK(names_.insert(place_in_register(spec)).second, spec.name);
  const int64_t stride = tight_stride(*spec.element, spec.cols);
  const size_t bytes = static_cast<size_t>(spec.rows) * bytes_of(*spec.element, stride);
  const std::span<std::byte> memory = take(spec.name, bytes, spec.kind);
  persistents_.back().spec = spec;
  persistents_.back().view = {memory.data(), *spec.element, spec.rows, spec.cols, stride};
  return persistents_.back().view;
}

Stored Run::stored(const StoredSpec& what) {
  const std::vector<PersistentSpec> rows = what.rows();
  Stored tensor{persistent(rows[0]), what.cast};
  if (rows.size() == 1) return tensor;
  if (what.cast.parts == 2) {
    tensor.view.low = persistent(rows[1]).data;
    return tensor;
  }
  const View scales = persistent(rows[1]);
  tensor.view.scales = {scales.data, rows[1].element, what.cast.block, nullptr};
  tensor.view.scales.coding = what.cast.coding();
  // Zeros are stored so; those of E8M0 and E4M3 have code 0. [errata-2, 12]
  if (scales.is(fp32_format())) execute(Fill{.x = scales, .value = 1.0f});
  if (what.cast.map != CodeMap::none) fill_with_zero_codes(*this, tensor.view);
  if (rows.size() == 2) return tensor;
  if (what.cast.expand) {
    const View power = persistent(rows[2]), center = persistent(rows[3]);
    for (const View& x : {power, center}) execute(Fill{.x = x, .value = 1.0f});
    tensor.view.scales.power = power.as<float>().data;
    tensor.view.scales.center = center.as<float>().data;
    return tensor;
  }
  const View level = persistent(rows[2]);
  execute(Fill{.x = level, .value = 1.0f});
  tensor.view.scales.tensor = level.as<float>().data;
  return tensor;
}

MemoryByKind Run::persistent_by_kind() const {
  MemoryByKind bytes{};
  for (const Persistent& row : persistents_)
    bytes[static_cast<size_t>(row.spec.kind)] += row.memory.size();
  bytes[static_cast<size_t>(MemoryKind::scratch)] += backend_->scratch_bytes();
  return bytes;
}

size_t Run::allocated_bytes() const {
  size_t total = arena_memory_.size();
  for (const size_t bytes : persistent_by_kind()) total += bytes;
  return total;
}

void Run::save(Tensor tensor) {
  if (!saving_) return;
  saved_.push_back(std::move(tensor));
  most_saved_ = std::max(most_saved_, saved_.size());
}

Tensor Run::restore() {
  NG_CHECK(!saved_.empty());
  Tensor tensor = std::move(saved_.back());
  saved_.pop_back();
  return tensor;
}

void Run::start_diagnosis() {
  diagnosing_ = true;
  diagnosis_ = {};
}

Diagnosis Run::finish_diagnosis() {
  diagnosing_ = false;
  return std::exchange(diagnosis_, {});
}

uint64_t Run::count_nonfinite(const ConstView& values) {
  const uint64_t none = 0;
  upload(nonfinite_, std::span(&none, 1));
  backend_->execute(AddNonfinite{nonfinite_, values});
  return read(nonfinite_);
}

void Run::examine(const ConstView& values, std::string_view what) {
  if (diagnosis_.found || values.rows == 0 || count_nonfinite(values) == 0) return;
  diagnosis_ = {true, std::string(layer_), std::string(operand_.empty() ? what : operand_)};
}

// What operands are made of before, for weights come from no operation; what is written after.
void Run::examine(const Operation& operation, bool before) {
  if (before)
    return for_each_source(operation, [&](std::string_view source, const ConstView& values) {
      examine(values, source);
    });
  for_each_output(operation, [&](std::string_view output, const ConstView& values) {
    examine(values, fmt::format("{} {}", name_of(operation), output));
  });
}

}  // namespace ng
