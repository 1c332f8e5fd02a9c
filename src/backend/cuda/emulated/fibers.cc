#include "backend/cuda/emulated/fibers.h"

#include <cstddef>
#include <memory>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define NG_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NG_ASAN 1
#endif
#endif
#if defined(NG_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace ng::cuda::emulated {
namespace {

/// Thrown in a fiber that is dropped.
struct Dropped {};

#if defined(NG_ASAN)
constexpr size_t kStack = 256 * 1024;  // red zones around what lies on it
void leave_stack(void** fake, const void* to, size_t size) {
  __sanitizer_start_switch_fiber(fake, to, size);
}
void reach_stack(void* fake, const void** from, size_t* size) {
  __sanitizer_finish_switch_fiber(fake, from, size);
}
// Memory that was a stack before has the red zones of its last frames.
void make_new(const boost::context::stack_context& stack) {
  __asan_unpoison_memory_region(static_cast<const std::byte*>(stack.sp) - stack.size, stack.size);
}
#else
constexpr size_t kStack = 64 * 1024;
void make_new(const boost::context::stack_context& /* stack */) {}
void leave_stack(void** /* fake */, const void* /* to */, size_t /* size */) {}
void reach_stack(void* /* fake */, const void** /* from */, size_t* /* size */) {}
#endif

using Stacks = boost::context::protected_fixedsize_stack;  // ends with a page nobody may touch

/// A stack that somebody else owns, to Boost.
struct Lent {
  boost::context::stack_context stack;
  [[nodiscard]] boost::context::stack_context allocate() const { return stack; }
  void deallocate(boost::context::stack_context& /* stack */) const {}
};

}  // namespace

Fibers::~Fibers() {
  drop();
  Stacks stacks(kStack);
  for (Fiber& fiber : fibers_) stacks.deallocate(fiber.stack);
}

void Fibers::start(size_t count, const std::function<void()>& body) {
  Stacks stacks(kStack);
  while (fibers_.size() < count) {
    fibers_.push_back({.stack = stacks.allocate(), .context = {}});
    make_new(fibers_.back().stack);
  }
  started_ = count;
  for (size_t i = 0; i < count; ++i)
    fibers_[i].context = boost::context::fiber(
        std::allocator_arg, Lent{fibers_[i].stack},
        [this, &body](boost::context::fiber&& caller) { return run(std::move(caller), body); });
}

boost::context::fiber Fibers::run(boost::context::fiber&& caller,
                                  const std::function<void()>& body) {
  reach_stack(nullptr, &caller_stack_, &caller_stack_size_);
  caller_ = std::move(caller);
  try {
    if (!dropping_) body();
  } catch (const Dropped&) {
  } catch (...) {
    failure_ = std::current_exception();
  }
  leave_stack(nullptr, caller_stack_, caller_stack_size_);
  return std::move(caller_);
}

void Fibers::enter(Fiber& fiber) {
  void* fake = nullptr;
  const auto* bottom = static_cast<const std::byte*>(fiber.stack.sp) - fiber.stack.size;
  leave_stack(&fake, bottom, fiber.stack.size);
  // Where the fiber suspends itself it comes back as what is to be resumed; else it is empty.
  fiber.context = std::move(fiber.context).resume();
  reach_stack(fake, nullptr, nullptr);
}

void Fibers::resume(size_t fiber) {
  enter(fibers_[fiber]);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Fibers::suspend() {
  void* fake = nullptr;
  leave_stack(&fake, caller_stack_, caller_stack_size_);
  caller_ = std::move(caller_).resume();
  reach_stack(fake, &caller_stack_, &caller_stack_size_);
  if (dropping_) throw Dropped{};
}

void Fibers::drop() {
  dropping_ = true;
  for (size_t i = 0; i < started_; ++i)
    if (fibers_[i].context) enter(fibers_[i]);
  failure_ = nullptr;
  dropping_ = false;
}

}  // namespace ng::cuda::emulated
