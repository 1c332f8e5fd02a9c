// The operations of kernels/perform.h as a backend; what a card's memory and streams are is left to
// who derives from it.
#pragma once

#include "backend/cuda/kernels/perform.h"

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
  [[nodiscard]] size_t scratch_bytes() const override { return kScratchBytes; }
  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const override {
    return cuda::operand_bytes(spec);
  }
  void require(const Operation& operation) const override { perform_on(nullptr, operation); }

 protected:
  static constexpr size_t kScratchBytes = size_t{4} << 20;

  /// Of a null stream nothing is touched.
  void perform_on(Stream stream, const Operation& operation) const {
    execute_with(On{stream, {scratch_, kScratchBytes}}, name(), operation);
  }

  std::byte* scratch_ = nullptr;  ///< kScratchBytes of the card's memory

 private:
  struct On {
    Stream stream;
    Scratch scratch;

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
