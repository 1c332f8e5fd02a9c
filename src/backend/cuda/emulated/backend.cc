#include <cstring>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/emulated/memory.h"
#include "backend/cuda/kernel_backend.h"

namespace ng {
namespace cuda {
namespace {

class EmulatedBackend final : public KernelBackend {
 public:
  EmulatedBackend(uint64_t thread_order, bool managed)
      : memory_(managed), device_(card_of(90), thread_order, &memory_) {
    scratch_ = memory_.allocate(kScratchBytes);
  }

  ~EmulatedBackend() override { memory_.release(scratch_); }
  EmulatedBackend(const EmulatedBackend&) = delete;
  EmulatedBackend& operator=(const EmulatedBackend&) = delete;

  [[nodiscard]] std::string_view name() const override { return "cuda-emulated"; }
  std::byte* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  void release(std::byte* memory, size_t /* bytes */) override { memory_.release(memory); }
  void upload(std::byte* to, const void* from, size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const std::byte* from, size_t bytes) const override {
    copy(to, from, bytes);
  }
  [[nodiscard]] bool is_in_hosts_reach() const override { return memory_.is_managed(); }
  void execute(const Operation& operation) override { perform_on(&device_, operation); }

 private:
  void copy(void* to, const void* from, size_t bytes) const {
    if (bytes == 0) return;
    const emulated::Memory::Reach reach(&memory_);
    std::memcpy(to, from, bytes);
  }

  emulated::Memory memory_;
  emulated::Device device_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Backend> make_emulated_cuda_backend(uint64_t thread_order, bool managed) {
  return std::make_unique<cuda::EmulatedBackend>(thread_order, managed);
}

}  // namespace ng
