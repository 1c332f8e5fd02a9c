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

/// Lets go of the lock while it lives.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
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
  Locked() : state_(lock_taken([] { return PyGILState_Ensure(); })) {}
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace ng::python
