#include "backend/cuda/emulated/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace ng::cuda::emulated {
namespace {

std::string text_of(const Dim3& d) { return fmt::format("({}, {}, {})", d.x, d.y, d.z); }

std::string text_of(const Place& place) {
  const std::string_view file = place.file;
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), place.line);
}

bool same_meeting(const Meeting& a, const Meeting& b) {
  return a.what == b.what && a.mask == b.mask && a.place == b.place;
}

bool has(uint32_t mask, int lane) { return (mask >> lane & 1u) != 0; }

}  // namespace

Block::Block(std::string_view kernel, const LaunchShape& shape, const Card& card,
             std::function<void()> suspend)
    : kernel_(kernel),
      shape_(shape),
      card_(card),
      suspend_(std::move(suspend)),
      threads_(static_cast<size_t>(shape.block.count())),
      ready_((threads_.size() + kWarp - 1) / kWarp) {}

void Block::begin(Dim3 index) {
  index_ = index;
  const Dim3 size = shape_.block;
  std::ranges::fill(ready_, 0u);
  for (unsigned rank = 0; rank < threads_.size(); ++rank) {
    Thread& thread = threads_[rank] = {};
    thread.rank = static_cast<int>(rank);
    thread.index = {rank % size.x, rank / size.x % size.y, rank / size.x / size.y};
    ready_[rank / kWarp] |= 1u << rank % kWarp;
  }
  alive_ = ready_;
  meeting_.assign(ready_.size(), 0u);
  ended_ = waiting_ = 0;
  barriers_ = 0;
  for (const auto& array : arrays_) array->forget();
}

Fault Block::fault(std::string_view what) const {
  return Fault(fmt::format("{}: block {}, thread {}: {}", kernel_, text_of(index_),
                           text_of(running.thread->index), what));
}

std::string Block::where(const Thread& thread) const {
  const Place& place = thread.waits ? barrier_ : thread.meeting.place;
  return fmt::format("thread {} waits at {}", thread.rank, text_of(place));
}

Fault Block::stuck() const {
  std::string text = fmt::format("{}: block {}: no thread can go on", kernel_, text_of(index_));
  int said = 0;
  for (const Thread& thread : threads_)
    if (!thread.ended && said++ < 4) text += ", " + where(thread);
  return Fault(text);
}

void Block::sync_threads(const Place& place) {
  Thread& me = *running.thread;
  if (ended_ != 0)
    throw fault(fmt::format("waits at {}, which {} threads ended without", text_of(place), ended_));
  if (waiting_ == 0) {
    first_waiting_ = &me;
    barrier_ = place;
  } else if (!(barrier_ == place)) {
    throw fault(fmt::format("waits at {}, {}", text_of(place), where(*first_waiting_)));
  }
  me.waits = true;
  ready_[static_cast<size_t>(me.warp())] &= ~(1u << me.lane());
  if (++waiting_ == threads_.size()) {
    waiting_ = 0;
    ++barriers_;
    ready_ = alive_;
    for (Thread& thread : threads_) thread.waits = false;
  }
  suspend_();  // also who came last: any may be the first to go on
}

/// Looks at one of those that wait for it: any other that never meets it is found by stuck().
void Block::check_meeting(const Thread& me, const Meeting& meeting) {
  if (!has(meeting.mask, me.lane()))
    throw fault(fmt::format("{}: mask {:#x} lacks lane {} itself", text_of(meeting.place),
                            meeting.mask, me.lane()));
  if (meeting.what == Together::shuffle && !has(meeting.mask, meeting.source))
    throw fault(fmt::format("{}: takes the value of lane {}, which is not in mask {:#x}",
                            text_of(meeting.place), meeting.source, meeting.mask));
  const uint32_t waiting = meeting_[static_cast<size_t>(me.warp())] & meeting.mask;
  if (waiting == 0) return;
  const Thread& other = at_lane(me.warp(), std::countr_zero(waiting));
  if (has(other.meeting.mask, me.lane()) && !same_meeting(other.meeting, meeting))
    throw fault(fmt::format("waits at {} with mask {:#x}, {} with mask {:#x}",
                            text_of(meeting.place), meeting.mask, where(other),
                            other.meeting.mask));
}

uint64_t Block::meet(const Meeting& meeting) {
  Thread& me = *running.thread;
  check_meeting(me, meeting);
  me.meeting = meeting;
  const auto warp = static_cast<size_t>(me.warp());
  meeting_[warp] |= 1u << me.lane();
  ready_[warp] &= ~(1u << me.lane());
  release(me.warp(), meeting);
  suspend_();
  return me.result;
}

/// Lets lanes go on once all that live are there.
void Block::release(int warp, const Meeting& meeting) {
  const uint32_t lanes = alive_[static_cast<size_t>(warp)] & meeting.mask;
  if ((meeting_[static_cast<size_t>(warp)] & lanes) != lanes) return;
  uint64_t votes = 0;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const Thread& thread = at_lane(warp, lane);
    if (!same_meeting(thread.meeting, meeting)) return;
    votes |= thread.meeting.value << lane;
  }
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    Thread& thread = at_lane(warp, std::countr_zero(rest));
    thread.result = votes;
    if (meeting.what != Together::shuffle) continue;
    const int source = thread.meeting.source;
    if (!has(lanes, source))
      throw fault(fmt::format("{}: thread {} takes the value of lane {}, which has ended",
                              text_of(meeting.place), thread.rank, source));
    thread.result = at_lane(warp, source).meeting.value;
  }
  meeting_[static_cast<size_t>(warp)] &= ~lanes;
  ready_[static_cast<size_t>(warp)] |= lanes;
  if (meeting.what == Together::sync) order_by_sync(warp, lanes);
  if (meeting.what == Together::matrices) do_work(warp, meeting);
}

/// By matrix units, which take a whole warp.
void Block::do_work(int warp, const Meeting& meeting) {
  if (alive_[static_cast<size_t>(warp)] != ~0u || meeting.mask != ~0u)
    throw fault(fmt::format("{}: matrix units without all lanes of the warp, which has {:#x}",
                            text_of(meeting.place), alive_[static_cast<size_t>(warp)]));
  std::array<WarpWork*, kWarp> lanes{};
  for (int lane = 0; lane < kWarp; ++lane)
    lanes[static_cast<size_t>(lane)] = at_lane(warp, lane).meeting.work;
  meeting.work->done_by(lanes);
}

/// What any of them did is now before what each of them will do.
void Block::order_by_sync(int warp, uint32_t lanes) {
  std::array<uint32_t, kWarp> joined{};
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    Thread& thread = at_lane(warp, std::countr_zero(rest));
    thread.known[static_cast<size_t>(thread.lane())] = thread.time++;
    for (size_t i = 0; i < joined.size(); ++i) joined[i] = std::max(joined[i], thread.known[i]);
  }
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1)
    at_lane(warp, std::countr_zero(rest)).known = joined;
}

void Block::end_thread() {
  Thread& me = *running.thread;
  if (waiting_ != 0) throw fault(fmt::format("ends, and {}", where(*first_waiting_)));
  me.ended = true;
  ++ended_;
  const auto warp = static_cast<size_t>(me.warp());
  ready_[warp] &= ~(1u << me.lane());
  alive_[warp] &= ~(1u << me.lane());
  for (uint32_t rest = meeting_[warp]; rest != 0; rest &= rest - 1)
    if (has(meeting_[warp], std::countr_zero(rest)))
      release(me.warp(), Meeting(at_lane(me.warp(), std::countr_zero(rest)).meeting));
}

SharedArray& Block::declared(const void* key, const char* name, size_t count, size_t element) {
  size_t bytes = 0;
  for (const auto& array : arrays_) {
    if (array->key() == key) return *array;
    if (array->key() != nullptr) bytes += array->bytes();
  }
  bytes += count * element;
  if (bytes > kDeclaredShared)
    throw fault(fmt::format("declares {} bytes of shared memory with {}, at most {}", bytes, name,
                            kDeclaredShared));
  if (bytes + shape_.shared > card_.shared_per_block)
    throw fault(fmt::format("{} bytes of shared memory with {}, {} has {} for a block",
                            bytes + shape_.shared, name, card_.name, card_.shared_per_block));
  arrays_.push_back(std::make_unique<SharedArray>(key, name, count, element));
  return *arrays_.back();
}

SharedArray& Block::dynamic(const char* name, size_t element) {
  for (const auto& array : arrays_) {
    if (array->key() != nullptr) continue;
    if (array->element() != element)
      throw fault(fmt::format("{}: the launch's shared memory has other elements too", name));
    return *array;
  }
  arrays_.push_back(std::make_unique<SharedArray>(nullptr, name, shape_.shared / element, element));
  return *arrays_.back();
}

}  // namespace ng::cuda::emulated
