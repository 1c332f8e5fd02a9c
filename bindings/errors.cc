// C++ exceptions as Python's.
#include <narrowgauge/error.h>

#include <new>

#include "base/error.h"
#include "bind.h"
#include "train/session.h"

namespace ng::python {
namespace {

nb::object error_class(const char* name) {
  return nb::module_::import_("narrowgauge._errors").attr(name);
}

/// Raises `error`, an instance of a Python exception.
void raise(const nb::object& error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(error.ptr()->ob_type), error.ptr());
}

nb::object error_of(const Error& error) {
  const Error::Parts& parts = error.parts();
  const auto* diverged = dynamic_cast<const Diverged*>(&error);
  if (diverged == nullptr)
    return error_class("Error")(parts.problem, parts.remedy, parts.place, parts.key);
  return error_class("Diverged")(parts.problem, parts.remedy, parts.place, parts.key,
                                 diverged->step());
}

void translate(const std::exception_ptr& failure, void*) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    raise(error_of(error));
  } catch (const narrowgauge::Error& error) {
    raise(error_class("Error")(error.problem(), error.remedy()));
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, kNoMemory.data());
  } catch (const std::logic_error& error) {  // a contract of ours
    PyErr_SetString(PyExc_RuntimeError, failure_text(error).c_str());
  }
}

}  // namespace

void add_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace ng::python
