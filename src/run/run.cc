#include "run/run.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ng {

Run::Run(std::unique_ptr<Backend> backend, uint64_t seed)
    : backend_(std::make_unique<TimedBackend>(std::move(backend))),
      plan_(std::make_unique<PlanBackend>(*backend_)),
      seed_(seed) {
  nonfinite_ = reinterpret_cast<uint64_t*>(persistent_bytes(sizeof(uint64_t), MemoryKind::state));
}

Run::~Run() {
  saved_.clear();
  for (const Persistent& block : persistents_) backend_->release(block.memory, block.bytes);
  if (arena_memory_.memory != nullptr) backend_->release(arena_memory_.memory, arena_memory_.bytes);
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
  if (bytes <= arena_memory_.bytes) return;
  if (arena_memory_.memory != nullptr) backend_->release(arena_memory_.memory, arena_memory_.bytes);
  arena_memory_ = {};
  arena_memory_ = {backend_->allocate(bytes), bytes, MemoryKind::activations};
}

void Run::begin_replay(const Program& program) {
  NG_CHECK(program.bytes <= arena_memory_.bytes, program.bytes, arena_memory_.bytes);
  saved_.clear();
  arena_.start_replay(program, arena_memory_.memory);
}

void Run::end_replay() {
  NG_CHECK(saved_.empty(), saved_.size());
  arena_.finish_replay();
}

std::byte* Run::persistent_bytes(size_t bytes, MemoryKind kind) {
  const size_t rounded = std::max<size_t>((bytes + 63) / 64 * 64, 64);
  std::byte* memory = backend_->allocate(rounded);
  persistents_.push_back({memory, rounded, kind});
  return memory;
}

View Run::persistent(int64_t rows, int64_t cols, MemoryKind kind) {
  NG_CHECK(rows >= 0 && cols >= 0, rows, cols);
  std::byte* memory = persistent_bytes(static_cast<size_t>(rows * cols) * sizeof(float), kind);
  return {reinterpret_cast<float*>(memory), rows, cols, cols};
}

MemoryByKind Run::persistent_by_kind() const {
  MemoryByKind bytes{};
  for (const Persistent& block : persistents_)
    bytes[static_cast<size_t>(block.kind)] += block.bytes;
  bytes[static_cast<size_t>(MemoryKind::scratch)] += backend_->scratch_bytes();
  return bytes;
}

size_t Run::allocated_bytes() const {
  size_t total = arena_memory_.bytes;
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

uint64_t Run::count_nonfinite(ConstView values) {
  *nonfinite_ = 0;
  backend_->add_nonfinite(nonfinite_, values);
  return *nonfinite_;
}

void Run::examine(ConstView values, std::string_view layer, std::string_view operand) {
  if (!diagnosing_ || diagnosis_.found || recording()) return;
  if (count_nonfinite(values) == 0) return;
  diagnosis_ = {true, std::string(layer), std::string(operand)};
}

}  // namespace ng
