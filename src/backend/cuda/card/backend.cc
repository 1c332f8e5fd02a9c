// A card of this machine behind the seam: the kernels as nvcc compiles them, on one stream. Never
// run on a card yet (docs/gpu.md).
#include <cuda_runtime.h>

#include <string>

#include "backend/cuda/card/units.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/kernel_backend.h"
#include "base/cuda_machine.h"

namespace ng {
namespace cuda {
namespace {

constexpr int kOldestCard = 80;
constexpr int kCudaMajor = CUDART_VERSION / 1000;

/// `what` was being done when the card failed, or when it was heard of a kernel that had.
void check(cudaError_t code, std::string_view what) {
  if (code == cudaSuccess) return;
  throw Error({.place = "cuda",
               .problem = std::string(what) + ": " + cudaGetErrorString(code),
               .remedy = code == cudaErrorMemoryAllocation ? "a smaller batch, context or model"
                                                           : "the card's state by nvidia-smi"});
}

/// Of the card that is used; throws Error where no kernel could run.
const Card& require_card() {
  const auto refuse = [](std::string problem) {
    throw Error({.place = "--backend", .problem = "cuda: " + problem, .remedy = "cpu"});
  };
  const CudaMachine machine = cuda_machine();
  if (!machine.driver) refuse("no NVIDIA driver on this machine");
  if (std::stoi(*machine.driver) < kCudaMajor)
    refuse("the driver serves CUDA " + *machine.driver + ", and kernels are of CUDA " +
           std::to_string(kCudaMajor));
  if (machine.devices.empty()) refuse("the driver finds no card");
  const CudaDevice& first = machine.devices.front();
  if (first.sm < kOldestCard)
    refuse(first.name + " is of sm_" + std::to_string(first.sm) + ", older than sm_" +
           std::to_string(kOldestCard));
  return card_like(first.sm);
}

/// A stream of the first card; throws Error where no kernel could run.
struct OwnStream : CardStream {
  OwnStream() : card(require_card()) {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  }
  ~OwnStream() { cudaStreamDestroy(stream); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  const Card& card;
};

constexpr size_t kHeldBytes = size_t{256} << 20;  ///< for operands as the library takes them

class CardBackend final : public KernelBackend {
 public:
  explicit CardBackend(bool exact) {
    if (!exact) {
      scratch_bytes_ = kHeldBytes;
      units_ = make_card_units(stream_.stream, stream_.card);
      if (units_ == nullptr)
        throw Error({.place = "--backend",
                     .problem = "cuda: no libcublasLt.so." + std::to_string(kCudaMajor) +
                                ", by which products are computed, or a build without its header",
                     .remedy = "cuda-exact, which does without, or LD_LIBRARY_PATH with the folder "
                               "where pip install nvidia-cublas puts it"});
    }
    scratch_ = allocate(scratch_bytes_);
  }
  ~CardBackend() override { cudaFree(scratch_); }
  CardBackend(const CardBackend&) = delete;
  CardBackend& operator=(const CardBackend&) = delete;

  [[nodiscard]] std::string_view name() const override {
    return units_ != nullptr ? "cuda" : "cuda-exact";
  }

  std::byte* allocate(size_t bytes) override {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes > 0 ? bytes : 1), std::to_string(bytes) + " bytes of memory");
    check(cudaMemsetAsync(memory, 0, bytes, stream_.stream), "zeros");
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory, size_t /* bytes */) override { cudaFree(memory); }

  void upload(std::byte* to, const void* from, size_t bytes) override {
    copy(to, from, bytes, cudaMemcpyHostToDevice);
  }
  void download(void* to, const std::byte* from, size_t bytes) const override {
    copy(to, from, bytes, cudaMemcpyDeviceToHost);
  }

  [[nodiscard]] bool is_in_hosts_reach() const override { return false; }

  void execute(const Operation& operation) override {
    perform_on(&stream_, operation);
    std::visit([](const auto& op) { check(cudaGetLastError(), op.kName); }, operation);
  }

 private:
  /// Behind all that was launched; the host's memory is its own again on return.
  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) const {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, kind, stream_.stream), "a copy");
    check(cudaStreamSynchronize(stream_.stream), "the kernels before a copy");
  }

  OwnStream stream_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Backend> make_cuda_backend(bool exact) {
  return std::make_unique<cuda::CardBackend>(exact);
}

}  // namespace ng
