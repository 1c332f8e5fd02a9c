#include <cstring>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/emulated/matmul.h"
#include "backend/cuda/emulated/memory.h"
#include "backend/cuda/kernel_backend.h"

namespace ng {
namespace cuda {
namespace {

class EmulatedUnits final : public Units {
 public:
  EmulatedUnits(emulated::Device& device, const emulated::Memory& memory)
      : device_(device), memory_(memory) {}
  [[nodiscard]] const Card& card() const override { return device_.card(); }
  void multiply(const Matmul& product) override {
    const emulated::Memory::Reach reach(&memory_);
    emulated::matmul(device_, product);
  }

 private:
  emulated::Device& device_;
  const emulated::Memory& memory_;
};

class EmulatedBackend final : public KernelBackend {
 public:
  explicit EmulatedBackend(const EmulatedCard& card)
      : has_units_(card.has_units),
        memory_(card.is_managed),
        device_(card_of(card.sm), card.thread_order, &memory_) {
    scratch_ = memory_.allocate(scratch_bytes_);
    if (has_units_) units_ = std::make_unique<EmulatedUnits>(device_, memory_);
  }

  ~EmulatedBackend() override { memory_.release(scratch_); }
  EmulatedBackend(const EmulatedBackend&) = delete;
  EmulatedBackend& operator=(const EmulatedBackend&) = delete;

  [[nodiscard]] std::string_view name() const override {
    return has_units_ ? "cuda-emulated-units" : "cuda-emulated";
  }
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

  bool has_units_;
  emulated::Memory memory_;
  emulated::Device device_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Backend> make_emulated_cuda_backend(const EmulatedCard& card) {
  return std::make_unique<cuda::EmulatedBackend>(card);
}

}  // namespace ng
