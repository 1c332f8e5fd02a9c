#include "run/arena.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace ng {
namespace {

constexpr size_t kAlignment = 64;
// Recorded views point nowhere, but not to null, so that column offsets stay defined.
std::byte* const kNowhere = reinterpret_cast<std::byte*>(uintptr_t{1} << 20);

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool live_together(const Program::Slot& a, const Program::Slot& b) {
  return a.begin < b.end && b.begin < a.end;
}

// Lowest offset at which `slot` fits between those of `neighbours`, which are sorted by offset.
size_t lowest_gap(const std::vector<const Program::Slot*>& neighbours, size_t bytes) {
  size_t offset = 0;
  for (const Program::Slot* other : neighbours) {
    if (offset + bytes <= other->offset) break;
    offset = std::max(offset, other->offset + other->bytes);
  }
  return offset;
}

MemoryByKind live_at_peak(const Program& program) {
  std::vector<std::pair<int64_t, size_t>> events;  // (time, slot): births and deaths have own times
  for (size_t i = 0; i < program.slots.size(); ++i) {
    events.emplace_back(program.slots[i].begin, i);
    events.emplace_back(program.slots[i].end, i);
  }
  std::sort(events.begin(), events.end());
  MemoryByKind live{}, peak{};
  size_t total = 0, most = 0;
  for (const auto& [time, index] : events) {
    const Program::Slot& slot = program.slots[index];
    size_t& kind = live[static_cast<size_t>(slot.kind)];
    if (time == slot.end) {
      kind -= slot.bytes;
      total -= slot.bytes;
    } else {
      kind += slot.bytes;
      total += slot.bytes;
    }
    if (total > most) {
      most = total;
      peak = live;
    }
  }
  return peak;
}

}  // namespace

void place_slots(Program& program) {
  std::vector<size_t> order(program.slots.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return program.slots[a].bytes > program.slots[b].bytes;
  });
  std::vector<const Program::Slot*> placed;  // sorted by offset
  std::vector<const Program::Slot*> neighbours;
  program.bytes = 0;
  for (const size_t index : order) {
    Program::Slot& slot = program.slots[index];
    if (slot.bytes == 0) continue;
    neighbours.clear();
    for (const Program::Slot* other : placed)
      if (live_together(slot, *other)) neighbours.push_back(other);
    slot.offset = lowest_gap(neighbours, slot.bytes);
    program.bytes = std::max(program.bytes, slot.offset + slot.bytes);
    const auto where = std::upper_bound(
        placed.begin(), placed.end(), slot.offset,
        [](size_t offset, const Program::Slot* other) { return offset < other->offset; });
    placed.insert(where, &slot);
  }
  program.at_peak = live_at_peak(program);
}

Tensor::Tensor(const Tensor& other) : arena_(other.arena_), slot_(other.slot_), view_(other.view_) {
  if (arena_ != nullptr) arena_->retain(slot_);
}

Tensor::Tensor(Tensor&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)), slot_(other.slot_), view_(other.view_) {
  other.view_ = {};
}

Tensor& Tensor::operator=(Tensor other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(slot_, other.slot_);
  std::swap(view_, other.view_);
  return *this;
}

Tensor::~Tensor() {
  if (arena_ != nullptr) arena_->release(slot_);
}

void Arena::start_recording() {
  recording_ = true;
  recorded_ = {};
  program_ = nullptr;
  references_.clear();
  next_ = 0;
  clock_ = 0;
}

Program Arena::finish_recording() {
  NG_CHECK(recording_);
  for (size_t slot = 0; slot < references_.size(); ++slot)
    NG_CHECK(references_[slot] == 0, slot, references_[slot]);
  recording_ = false;
  place_slots(recorded_);
  return std::move(recorded_);
}

void Arena::start_replay(const Program& program, std::byte* base) {
  program_ = &program;
  base_ = base;
  references_.assign(program.slots.size(), 0);
  next_ = 0;
}

void Arena::finish_replay() {
  NG_CHECK(program_ != nullptr && next_ == program_->slots.size(), next_);
  for (size_t slot = 0; slot < references_.size(); ++slot)
    NG_CHECK(references_[slot] == 0, slot, references_[slot]);
  program_ = nullptr;
}

Tensor Arena::allocate_bytes(size_t bytes, MemoryKind kind) {
  const size_t slot = next_++;
  const size_t rounded = round_up(bytes);
  std::byte* memory = kNowhere;
  if (recording_) {
    recorded_.slots.push_back({.bytes = rounded, .begin = clock_++, .kind = kind});
    references_.push_back(1);
  } else {
    NG_CHECK(program_ != nullptr && slot < program_->slots.size(), slot);
    NG_CHECK(program_->slots[slot].bytes == rounded, slot, rounded, program_->slots[slot].bytes);
    references_[slot] = 1;
    memory = base_ + program_->slots[slot].offset;
  }
  return {this, slot, View{reinterpret_cast<float*>(memory), 0, 0, 0}};
}

Tensor Arena::allocate(int64_t rows, int64_t cols, MemoryKind kind) {
  NG_CHECK(rows >= 0 && cols >= 0, rows, cols);
  Tensor tensor = allocate_bytes(static_cast<size_t>(rows * cols) * sizeof(float), kind);
  tensor.view_ = {tensor.view_.data, rows, cols, cols};
  return tensor;
}

void Arena::release(size_t slot) {
  if (--references_[slot] == 0 && recording_) recorded_.slots[slot].end = clock_++;
}

}  // namespace ng
