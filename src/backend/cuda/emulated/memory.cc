#include "backend/cuda/emulated/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace ng::cuda::emulated {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kPage = 4096;
constexpr size_t kReserved = size_t{1} << 36;  // of addresses, in one range: many take long

size_t rounded_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

[[noreturn]] void refuse(size_t bytes) {
  throw Error({.place = "memory",
               .problem = fmt::format("cannot allocate {} bytes", bytes),
               .remedy = "a smaller batch, context or model"});
}

}  // namespace

Memory::Memory(bool managed) : managed_(managed) {
  if (managed_) return;
  void* const pages =
      mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) refuse(kReserved);
  pages_ = static_cast<std::byte*>(pages);
}

Memory::~Memory() {
  if (pages_ != nullptr) munmap(pages_, kReserved);
}

std::byte* Memory::allocate(size_t bytes) {
  if (bytes > kReserved) refuse(bytes);
  const size_t size = rounded_up(std::max<size_t>(bytes, 1), managed_ ? kAlignment : kPage);
  if (managed_) {
    void* const memory = std::aligned_alloc(kAlignment, size);
    if (memory == nullptr) refuse(bytes);
    return static_cast<std::byte*>(std::memset(memory, 0, size));
  }
  const std::lock_guard lock(mutex_);
  if (size > kReserved - used_) refuse(bytes);
  regions_.push_back({.begin = used_});
  used_ += size;
  most_used_ = std::max(most_used_, used_);
  if (reaches_ > 0) protect(true);
  return pages_ + regions_.back().begin;
}

// What is released below the last region waits for those above it.
void Memory::release(std::byte* memory) {
  if (managed_) return std::free(memory);
  { const Reach all_is_written(this); }
  const std::lock_guard lock(mutex_);
  const auto begin = static_cast<size_t>(memory - pages_);
  const auto region = std::ranges::find(regions_, begin, &Region::begin);
  NG_CHECK(region != regions_.end(), begin);
  region->released = true;
  const size_t before = used_;
  while (!regions_.empty() && regions_.back().released) {
    used_ = regions_.back().begin;
    regions_.pop_back();
  }
  madvise(pages_ + used_, before - used_, MADV_DONTNEED);  // zeros when they are given out again
}

size_t Memory::write_later(std::byte* to, const std::byte* from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  writes_.push_back({to, from, bytes});
  const size_t number = written_ + writes_.size();
  if (managed_) write();
  return number;
}

bool Memory::has_written(size_t number) const {
  const std::lock_guard lock(mutex_);
  return written_ >= number;
}

void Memory::write() const {
  for (const Write& write : writes_) std::memcpy(write.to, write.from, write.bytes);
  written_ += writes_.size();
  writes_.clear();
}

void Memory::move_reaches(int by) const {
  if (managed_) return;
  const std::lock_guard lock(mutex_);
  const bool was_in_reach = reaches_ > 0;
  reaches_ += by;
  if ((reaches_ > 0) != was_in_reach) protect(reaches_ > 0);
  if (by > 0) write();
}

void Memory::protect(bool in_reach) const {
  if (most_used_ == 0) return;
  const int access = in_reach ? PROT_READ | PROT_WRITE : PROT_NONE;
  NG_CHECK(mprotect(pages_, most_used_, access) == 0, most_used_);
}

}  // namespace ng::cuda::emulated
