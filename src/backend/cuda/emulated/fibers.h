// Functions that give the processor to each other, by Boost.Context.
#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <exception>
#include <functional>
#include <vector>

namespace ng::cuda::emulated {

/// Fibers by number. Their stacks are kept from one use to the next.
class Fibers {
 public:
  Fibers() = default;
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// `count` fibers that will each call `body`; those before are through or dropped.
  void start(size_t count, const std::function<void()>& body);
  /// Runs a fiber until it suspends itself or is through; rethrows what its body threw.
  void resume(size_t fiber);
  /// Of the fiber that runs: back to who resumed it.
  void suspend();
  /// Unwinds all that are not through.
  void drop();

 private:
  struct Fiber {
    boost::context::stack_context stack;
    boost::context::fiber context;  ///< empty: through, or it runs
  };
  boost::context::fiber run(boost::context::fiber&& caller, const std::function<void()>& body);
  void enter(Fiber& fiber);

  std::vector<Fiber> fibers_;
  size_t started_ = 0;
  boost::context::fiber caller_;
  bool dropping_ = false;
  std::exception_ptr failure_;
  const void* caller_stack_ = nullptr;  ///< as AddressSanitizer wants to know it
  size_t caller_stack_size_ = 0;
};

}  // namespace ng::cuda::emulated
