#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/kernels/perform.h"

namespace ng {
namespace cuda {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kScratchBytes = size_t{4} << 20;

std::byte* allocate_zeros(size_t bytes) {
  const size_t size = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = size < bytes ? nullptr : std::aligned_alloc(kAlignment, size);
  if (memory == nullptr)
    throw Error({.place = "memory",
                 .problem = fmt::format("cannot allocate {} bytes", bytes),
                 .remedy = "a smaller batch, context or model"});
  return static_cast<std::byte*>(std::memset(memory, 0, size));
}

/// Its memory is the host's.
class EmulatedBackend final : public Backend {
 public:
  explicit EmulatedBackend(uint64_t thread_order)
      : device_(card_of(90), thread_order),
        scratch_{allocate_zeros(kScratchBytes), kScratchBytes} {}
  ~EmulatedBackend() override { std::free(scratch_.data); }
  EmulatedBackend(const EmulatedBackend&) = delete;
  EmulatedBackend& operator=(const EmulatedBackend&) = delete;

  [[nodiscard]] std::string_view name() const override { return "cuda-emulated"; }
  [[nodiscard]] size_t scratch_bytes() const override { return scratch_.bytes; }
  std::byte* allocate(size_t bytes) override { return allocate_zeros(bytes); }
  void release(std::byte* memory, size_t /* bytes */) override { std::free(memory); }
  void upload(std::byte* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void download(void* to, const std::byte* from, size_t bytes) const override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const override {
    return cuda::operand_bytes(spec);
  }

  void execute(const Operation& operation) override { perform_on(&device_, operation); }
  void require(const Operation& operation) const override { perform_on(nullptr, operation); }

 private:
  void perform_on(Stream stream, const Operation& operation) const {
    const auto with = [&]<class Op>(const Op& op) requires(
        requires(Stream any) { perform(any, op); } ||
        requires(Stream any, const Scratch& scratch) { perform(any, op, scratch); }) {
      if constexpr (requires { perform(stream, op); })
        perform(stream, op);
      else
        perform(stream, op, scratch_);
    };
    execute_with(with, name(), operation);
  }

  emulated::Device device_;
  Scratch scratch_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Backend> make_emulated_cuda_backend(uint64_t thread_order) {
  return std::make_unique<cuda::EmulatedBackend>(thread_order);
}

}  // namespace ng
