#include "base/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ng {

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

namespace {

// A waiting thread spins this long before it sleeps: longer than the gap between two operations of
// a step, shorter than anything another process would notice. (OpenMP's runtimes spin for
// milliseconds, which on a shared machine takes the core from the thread that is waited for.)
constexpr std::chrono::microseconds kSpin{50};

// Waits until `value` is no longer `old`.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old, bool spins) {
  if (spins) {
    const auto until = std::chrono::steady_clock::now() + kSpin;
    while (std::chrono::steady_clock::now() < until) {
      for (int i = 0; i < 16; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      }
    }
  }
  value.wait(old, std::memory_order_acquire);
}

// The process's worker threads; they sleep between operations and end with the process, whose exit
// waits for none of them. A process that was forked has no threads but its own: it starts others.
class Pool {
 public:
  static Pool& instance() {
    static const int registered = pthread_atfork(nullptr, nullptr, [] { pool() = new Pool; });
    NG_CHECK(registered == 0, registered);
    return *pool();
  }

  void run(Threads threads, int64_t items, detail::ItemCall call, const void* body) {
    const std::lock_guard<std::mutex> one_job_at_a_time(mutex_);
    grow(static_cast<size_t>(threads.count - 1));  // what cannot be had is said at once
    const auto helpers = static_cast<size_t>(std::min<int64_t>(threads.count, items) - 1);
    spins_.store(threads.count <= cores_, std::memory_order_relaxed);
    call_ = call;
    body_ = body;
    items_ = items;
    next_.store(0, std::memory_order_relaxed);
    failure_ = nullptr;
    pending_.store(static_cast<uint32_t>(helpers), std::memory_order_relaxed);
    for (size_t i = 0; i < helpers; ++i) wake(*workers_[i]);
    work(0);
    for (uint32_t left = pending_.load(std::memory_order_acquire); left != 0;
         left = pending_.load(std::memory_order_acquire))
      wait_for_change(pending_, left, spins_.load(std::memory_order_relaxed));
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  struct alignas(64) Worker {
    std::atomic<uint32_t> ticket{0};
    std::thread thread;
  };

  Pool() = default;

  static Pool*& pool() {
    static Pool* made = new Pool;
    return made;
  }

  static void wake(Worker& worker) {
    worker.ticket.fetch_add(1, std::memory_order_release);
    worker.ticket.notify_one();
  }

  void grow(size_t helpers) {
    while (workers_.size() < helpers) {
      auto worker = std::make_unique<Worker>();
      const auto index = static_cast<int>(workers_.size()) + 1;
      workers_.reserve(workers_.size() + 1);  // what may fail, before there is a thread to lose
      worker->thread = started(*worker, index, helpers);
      workers_.push_back(std::move(worker));
    }
  }

  std::thread started(Worker& worker, int index, size_t helpers) {
    try {
      return std::thread([this, &worker, index] { serve(worker, index); });
    } catch (const std::system_error& error) {
      throw Error({.place = "threads",
                   .problem = fmt::format("only {} of {} could be started: {}", index, helpers + 1,
                                          error.code().message()),
                   .remedy = fmt::format("--threads {}, or higher limits of processes and memory "
                                         "(ulimit -u, ulimit -v)",
                                         index)});
    }
  }

  void serve(Worker& worker, int index) {
    for (uint32_t seen = 0;; ++seen) {  // every ticket is one job
      wait_for_change(worker.ticket, seen, spins_.load(std::memory_order_relaxed));
      work(index);
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
    }
  }

  void work(int worker) {
    for (int64_t item = next_.fetch_add(1); item < items_; item = next_.fetch_add(1)) {
      try {
        call_(body_, item, worker);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(failure_mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
    }
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> workers_;
  detail::ItemCall call_ = nullptr;
  const void* body_ = nullptr;
  int64_t items_ = 0;
  std::atomic<int64_t> next_{0};
  std::atomic<uint32_t> pending_{0};
  // More threads than cores sleep at once: what spins has the core of whom it waits for.
  const int cores_ = available_cores();
  std::atomic<bool> spins_{false};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

}  // namespace

namespace detail {

void run_items(Threads threads, int64_t items, ItemCall call, const void* body) {
  Pool::instance().run(threads, items, call, body);
}

}  // namespace detail
}  // namespace ng
