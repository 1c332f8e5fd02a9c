// The operations of kernels/perform.h as a backend; what a card's memory and streams are is left to
// who derives from it.
#pragma once

#include <memory>

#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/route.h"

namespace ng::cuda {

template <class Op>
concept Performed = requires(Stream stream, const Op& op) {
  perform(stream, op);
};
template <class Op>
concept PerformedInScratch = requires(Stream stream, const Op& op, const Scratch& scratch) {
  perform(stream, op, scratch);
};

class KernelBackend : public Backend {
 public:
  [[nodiscard]] size_t scratch_bytes() const override { return scratch_bytes_; }
  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const override {
    return cuda::operand_bytes(spec);
  }
  [[nodiscard]] bool sums_as_defined(const OperandSpec& a, const OperandSpec& b,
                                     SumOrder sum) const override {
    if (units_ == nullptr) return true;
    const Route route = choose_route(units_->card(), {.a = a, .b = b, .sum = sum}).route;
    return route == Route::kernel || route == Route::int8;
  }
  void require(const Operation& operation) const override { perform_on(nullptr, operation); }

 protected:
  /// Of a null stream nothing is touched.
  void perform_on(Stream stream, const Operation& operation) const {
    execute_with(On{stream, {scratch_, scratch_bytes_}, units_.get()}, name(), operation);
  }

  std::byte* scratch_ = nullptr;  ///< of the card's memory
  size_t scratch_bytes_ = size_t{4} << 20;
  std::unique_ptr<Units> units_;  ///< null: products have the bits of ref

 private:
  struct On {
    Stream stream;
    Scratch scratch;
    Units* units;

    void operator()(const Gemm& op) const { perform(stream, op, {units, scratch}); }
    template <Performed Op>
    void operator()(const Op& op) const {
      perform(stream, op);
    }
    template <PerformedInScratch Op>
    void operator()(const Op& op) const {
      perform(stream, op, scratch);
    }
  };
};

}  // namespace ng::cuda
