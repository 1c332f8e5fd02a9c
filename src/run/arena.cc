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

// A stretch of the arena, and when it is in use: a step repeats its tensors in each micro-batch, so
// that few stretches hold many slots.
struct Stretch {
  size_t offset = 0, end = 0;
  std::vector<std::pair<int64_t, int64_t>> lives = {};  // (begin, end), one after another
  size_t next = 0;                                      // of `lives`; earlier ones are over

  // To be asked in the order of begin(); `next` starts anew with 0.
  bool in_use(const Program::Slot& slot) {
    while (next < lives.size() && lives[next].second <= slot.begin) ++next;
    return next < lives.size() && lives[next].first < slot.end;
  }
};

// Lowest offset at which `slot` fits between those that live with it; stretches sorted by offset.
size_t lowest_gap(std::vector<Stretch>& stretches, const Program::Slot& slot) {
  size_t offset = 0;
  for (Stretch& stretch : stretches) {
    if (offset + slot.bytes <= stretch.offset) break;
    if (stretch.end > offset && stretch.in_use(slot)) offset = stretch.end;
  }
  return offset;
}

void use_stretch(std::vector<Stretch>& stretches, const Program::Slot& slot) {
  const std::pair key(slot.offset, slot.offset + slot.bytes);
  auto at = std::lower_bound(stretches.begin(), stretches.end(), key,
                             [](const Stretch& stretch, const auto& wanted) {
                               return std::pair(stretch.offset, stretch.end) < wanted;
                             });
  if (at == stretches.end() || std::pair(at->offset, at->end) != key)
    at = stretches.insert(at, {.offset = key.first, .end = key.second});
  at->lives.emplace_back(slot.begin, slot.end);
}

// The largest first; of one size those that begin first.
std::vector<size_t> order_to_place(const std::vector<Program::Slot>& slots) {
  std::vector<size_t> order(slots.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(slots[b].bytes, slots[a].begin) < std::pair(slots[a].bytes, slots[b].begin);
  });
  return order;
}

// Fills at_peak and most.
void count_live(Program& program) {
  std::vector<std::pair<int64_t, size_t>> events;  // (time, slot): births and deaths have own times
  for (size_t i = 0; i < program.slots.size(); ++i) {
    events.emplace_back(program.slots[i].begin, i);
    events.emplace_back(program.slots[i].end, i);
  }
  std::sort(events.begin(), events.end());
  MemoryByKind live{};
  size_t total = 0, most = 0;
  program.at_peak = program.most = {};
  for (const auto& [time, index] : events) {
    const Program::Slot& slot = program.slots[index];
    const auto row = static_cast<size_t>(slot.kind);
    size_t& kind = live[row];
    if (time == slot.end) {
      kind -= slot.bytes;
      total -= slot.bytes;
    } else {
      kind += slot.bytes;
      total += slot.bytes;
    }
    program.most[row] = std::max(program.most[row], kind);
    if (total > most) {
      most = total;
      program.at_peak = live;
    }
  }
}

}  // namespace

void place_slots(Program& program) {
  std::vector<Stretch> stretches;
  size_t size = 0;
  program.bytes = 0;
  for (const size_t index : order_to_place(program.slots)) {
    Program::Slot& slot = program.slots[index];
    if (slot.bytes == 0) continue;
    if (slot.bytes != size)
      for (Stretch& stretch : stretches) stretch.next = 0;
    size = slot.bytes;
    slot.offset = lowest_gap(stretches, slot);
    program.bytes = std::max(program.bytes, slot.offset + slot.bytes);
    use_stretch(stretches, slot);
  }
  count_live(program);
}

Tensor::Tensor(const Tensor& other)
    : arena_(other.arena_), slot_(other.slot_), memory_(other.memory_), view_(other.view_) {
  if (arena_ != nullptr) arena_->retain(slot_);
}

Tensor::Tensor(Tensor&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)),
      slot_(other.slot_),
      memory_(std::exchange(other.memory_, nullptr)),
      view_(std::exchange(other.view_, {})) {}

Tensor& Tensor::operator=(Tensor other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(slot_, other.slot_);
  std::swap(memory_, other.memory_);
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

void Arena::return_to(size_t mark) {
  for (size_t slot = mark; slot < next_; ++slot)
    NG_CHECK(references_[slot] == 0, slot, references_[slot]);
  if (!recording_) next_ = mark;
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
  return {this, slot, memory};
}

Tensor Arena::allocate(int64_t rows, int64_t cols, const ElementFormat& element, MemoryKind kind) {
  NG_CHECK(rows >= 0 && cols >= 0, rows, cols);
  const int64_t stride = tight_stride(element, cols);
  Tensor tensor = allocate_bytes(static_cast<size_t>(rows) * bytes_of(element, stride), kind);
  tensor.view_ = {tensor.memory_, element, rows, cols, stride};
  return tensor;
}

void Arena::release(size_t slot) {
  if (--references_[slot] == 0 && recording_) recorded_.slots[slot].end = clock_++;
}

}  // namespace ng
