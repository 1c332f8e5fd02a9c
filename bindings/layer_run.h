// Where the layers of a model of another framework compute, over matrices that it owns.
#pragma once

#include <nanobind/stl/optional.h>

#include <mutex>
#include <optional>

#include "bind.h"
#include "run/backends.h"
#include "run/run.h"

namespace ng::python {

/// A matrix of FP32 or BF16, rows of which lie side by side, in memory of the run's backend.
using Matrix = nb::ndarray<nb::pytorch, nb::ndim<2>>;
/// The same of other values, one behind another.
template <class Value>
using Row = nb::ndarray<nb::pytorch, Value, nb::ndim<1>, nb::c_contig>;

[[nodiscard]] inline View view_of_matrix(const Matrix& of) {
  const bool is_bf16 =
      of.dtype() == nb::dtype<float>()
          ? false
          : of.dtype().code == static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat);
  const ElementFormat& element = is_bf16 ? bf16_format() : fp32_format();
  const auto rows = static_cast<int64_t>(of.shape(0)), cols = static_cast<int64_t>(of.shape(1));
  NG_CHECK((of.stride(1) == 1 || cols == 1) && of.dtype().bits == (is_bf16 ? 16 : 32), of.stride(1),
           int{of.dtype().bits});
  return {static_cast<std::byte*>(of.data()), element, rows, cols, rows > 1 ? of.stride(0) : cols};
}

[[nodiscard]] inline View view_of_matrix(const std::optional<Matrix>& of) {
  return of ? view_of_matrix(*of) : View();
}

/// When a call is of, in training.
struct When {
  uint32_t step = 0, micro = 0;
  bool evaluates = false;  ///< nothing is drawn
  bool repeats = false;    ///< it is done again, and leaves no trace
  uint64_t stream = 0;     ///< of a device: what its library calls the stream of torch's operations
};

/// The layers of one model: they share the memory of a step, so that one call works at a time.
class LayerRun {
 public:
  /// `device`: of those of this host.
  LayerRun(uint64_t seed, int64_t threads, const std::string& backend, int device)
      : threads_(threads_of(threads)),
        is_cpu_(backend == "cpu"),
        run_(make_backend(backend, threads_, 0, device), seed) {}

  template <class Body>
  void work(const When& when, const Body& body) {
    const Unlocked unlocked;
    const std::lock_guard lock(mutex_);
    run_.backend().use_stream(reinterpret_cast<void*>(when.stream));
    run_.set_moment({.step = when.step, .micro = when.micro, .first_micro = when.micro});
    run_.set_evaluating(when.evaluates);
    run_.set_writes_statistics(!when.evaluates && !when.repeats);
    body();
  }
  [[nodiscard]] Run& run() { return run_; }
  [[nodiscard]] Threads threads() const { return threads_; }
  /// Whether operands lie as ng::cpu packs them.
  [[nodiscard]] bool is_cpu() const { return is_cpu_; }

 private:
  std::mutex mutex_;
  Threads threads_;
  bool is_cpu_;
  Run run_;
};

}  // namespace ng::python
