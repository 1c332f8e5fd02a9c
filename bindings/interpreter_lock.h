// Python's global lock, taken and let go of so that a thread may be there when the interpreter
// ends.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace ng::python {

/// `take` takes the lock. Once the interpreter has begun to end, Python before 3.14 ends a thread
/// that asks for it by unwinding its stack, over destructors and nanobind's functions that must not
/// throw: the process would abort. The thread waits for the process to end instead, as from 3.14
/// on.
template <class Take>
auto lock_taken(const Take& take) -> decltype(take()) {
  try {
    return take();
  } catch (abi::__forced_unwind&) {
    for (;;) ::pause();
  }
}

/// This thread computes without the lock from here on, or asks for it: then no more.
void begin_computing();
void end_computing();
/// Whether it does.
[[nodiscard]] bool is_computing();
/// Once the interpreter has ended, and before the process destroys what its threads compute with,
/// it waits for each to ask for the lock.
void wait_for_computing_at_exit();

/// Lets go of the lock while it lives.
class Unlocked {
 public:
  Unlocked() {
    begin_computing();
    state_ = PyEval_SaveThread();
  }
  ~Unlocked() {
    end_computing();
    lock_taken([this] { PyEval_RestoreThread(state_); });
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// Holds the lock while it lives.
class Locked {
 public:
  Locked() : was_computing_(is_computing()) {
    if (was_computing_) end_computing();
    state_ = lock_taken([] { return PyGILState_Ensure(); });
  }
  ~Locked() {
    if (was_computing_) begin_computing();
    PyGILState_Release(state_);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  bool was_computing_;
  PyGILState_STATE state_;
};

}  // namespace ng::python
