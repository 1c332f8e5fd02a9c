#include "run_observer.h"

#include <utility>

namespace ng::python {

template <class Work>
void RunObserver::ask(const Work& work) {
  const Locked locked;
  try {
    if (!work()) stop_ = true;
  } catch (const nb::python_error&) {
    raised_ = std::current_exception();
    stop_ = true;
  }
}

void RunObserver::rethrow() {
  if (const std::exception_ptr raised = std::exchange(raised_, nullptr))
    std::rethrow_exception(raised);
}

void RunObserver::notice(const std::string& sentence) {
  if (raised_) return;
  ask([&] {
    notice_(sentence);
    return true;
  });
}

void RunObserver::reading(int64_t, int64_t) { python::look_for_signals(); }

void RunObserver::line(const Json& object) {
  if (stop_) return;
  ask([&] {
    if (progress_.is_none()) return true;
    const nb::object answer = progress_(python_of(object));
    return !answer.is(nb::bool_(false));
  });
}

void RunObserver::look_for_signals() {
  if (raised_) return;
  ask([] {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    return true;
  });
}

}  // namespace ng::python
