#include "backend/cuda/emulated/shared_array.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/emulated/block.h"

namespace ng::cuda::emulated {

SharedArray::SharedArray(const void* key, std::string name, size_t count, size_t element)
    : key_(key),
      name_(std::move(name)),
      element_(element),
      bytes_(count * element),
      elements_(count) {}

void SharedArray::forget() {
  for (Element& element : elements_) {
    element.written = {};
    element.reads.clear();
  }
}

bool SharedArray::ordered(const Access& earlier) {
  const Thread& me = *running.thread;
  if (earlier.thread == me.rank || earlier.barriers < running.block->barriers()) return true;
  const auto lane = static_cast<size_t>(earlier.thread % kWarp);
  return earlier.thread / kWarp == me.warp() && me.known[lane] >= earlier.time;
}

void SharedArray::race(int64_t i, const Access& earlier, const char* then, const char* now) const {
  throw running.block->fault(
      fmt::format("shared memory: {}[{}] is {} here and was {} by thread {}: no barrier between",
                  name_, i, now, then, earlier.thread));
}

std::byte* SharedArray::told(int64_t i, Kind kind) {
  if (i < 0 || i >= std::ssize(elements_))
    throw running.block->fault(
        fmt::format("shared memory: {}[{}] of {} elements", name_, i, elements_.size()));
  Element& element = elements_[static_cast<size_t>(i)];
  const Thread& me = *running.thread;
  const Access now{.thread = me.rank,
                   .barriers = running.block->barriers(),
                   .time = me.time,
                   .atomic = kind == Kind::atomic};
  const bool wrote = element.written.thread >= 0;
  if (!wrote && kind != Kind::write)
    throw running.block->fault(
        fmt::format("shared memory: {}[{}] is read before it was written", name_, i));
  const char* doing = kind == Kind::read ? "read" : "written";
  if (wrote && !(now.atomic && element.written.atomic) && !ordered(element.written))
    race(i, element.written, "written", doing);
  if (kind == Kind::read) {
    std::erase_if(element.reads, [&](const Access& read) {
      return read.thread == now.thread || read.barriers < now.barriers;
    });
    element.reads.push_back(now);
  } else {
    for (const Access& read : element.reads)
      if (!ordered(read)) race(i, read, "read", doing);
    element.reads.clear();
    element.written = now;
  }
  return bytes_.data() + static_cast<size_t>(i) * element_;
}

}  // namespace ng::cuda::emulated
