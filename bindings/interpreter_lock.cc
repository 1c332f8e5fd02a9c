#include "interpreter_lock.h"

#include <pthread.h>

#include <atomic>

namespace ng::python {
namespace {

std::atomic<int> threads_that_compute{0};
thread_local bool computes = false;

void wait_for_computing() {
  while (const int threads = threads_that_compute.load()) threads_that_compute.wait(threads);
}
/// None but the one that forked, which has the lock, is in the new process.
void forget_threads() { threads_that_compute = 0; }

}  // namespace

void begin_computing() {
  ++threads_that_compute;
  computes = true;
}
void end_computing() {
  computes = false;
  --threads_that_compute;
  threads_that_compute.notify_all();
}
bool is_computing() { return computes; }

void wait_for_computing_at_exit() {
  Py_AtExit(wait_for_computing);
  ::pthread_atfork(nullptr, nullptr, forget_threads);
}

}  // namespace ng::python
