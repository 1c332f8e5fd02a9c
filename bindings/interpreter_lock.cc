#include "interpreter_lock.h"

#include <pthread.h>

#include <atomic>

#include "base/patience.h"

namespace ng::python {
namespace {

std::atomic<int> threads_that_compute{0};
thread_local bool computes = false;

void wait_for_computing() {
  wait_until([] { return threads_that_compute == 0; });
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
}
bool is_computing() { return computes; }

void wait_for_computing_at_exit() {
  Py_AtExit(wait_for_computing);
  ::pthread_atfork(nullptr, nullptr, forget_threads);
}

}  // namespace ng::python
