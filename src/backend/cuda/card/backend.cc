// A card of this machine behind the seam: the kernels as nvcc compiles them, on one stream. Never
// run on a card yet (docs/gpu.md).
#include <cuda_runtime.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/card/nccl.h"
#include "backend/cuda/card/runtime.h"
#include "backend/cuda/card/units.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/kernel_backend.h"
#include "backend/cuda/upload_ring.h"
#include "base/cuda_machine.h"

namespace ng {
namespace cuda {
namespace {

constexpr int kOldestCard = 80;
constexpr int kCudaMajor = CUDART_VERSION / 1000;

/// Of card `device`, round and round; throws Error where no kernel could run.
const Card& require_card(int& device) {
  const auto refuse = [](std::string problem) {
    throw Error({.place = "--backend", .problem = "cuda: " + problem, .remedy = "cpu"});
  };
  const CudaMachine machine = cuda_machine();
  if (!machine.driver) refuse("no NVIDIA driver on this machine");
  if (std::stoi(*machine.driver) < kCudaMajor)
    refuse("the driver serves CUDA " + *machine.driver + ", and kernels are of CUDA " +
           std::to_string(kCudaMajor));
  if (machine.devices.empty()) refuse("the driver finds no card");
  device %= static_cast<int>(machine.devices.size());
  const CudaDevice& card = machine.devices[static_cast<size_t>(device)];
  if (card.sm < kOldestCard)
    refuse(card.name + " is of sm_" + std::to_string(card.sm) + ", older than sm_" +
           std::to_string(kOldestCard));
  return card_like(card.sm);
}

std::string name_of_card(int device) {
  const CudaDevice card = cuda_machine().devices[static_cast<size_t>(device)];
  return card.name + " (sm_" + std::to_string(card.sm) + ")";
}

/// A stream of a card, or that of others; throws Error where no kernel could run.
struct OwnStream : CardStream {
  explicit OwnStream(int wish) : device(wish), card(require_card(device)) {
    const OnCard on(device);
    check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), "a stream");
    check(cudaEventCreateWithFlags(&turn, cudaEventDisableTiming), "an event");
    stream = own;
  }
  ~OwnStream() {
    cudaEventDestroy(turn);
    cudaStreamDestroy(own);
  }
  /// Behind all that was launched on the one before.
  void change_to(cudaStream_t other) {
    if (other == stream) return;
    const OnCard on(device);
    check(cudaEventRecord(turn, stream), "an event");
    check(cudaStreamWaitEvent(other, turn, 0), "an event");
    stream = other;
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  int device = 0;
  const Card& card;
  cudaStream_t own = nullptr;
  cudaEvent_t turn = nullptr;  ///< from one stream to the next
};

/// Events on the stream.
class CardMoments final : public Moments {
 public:
  explicit CardMoments(const OwnStream& stream) : stream_(stream) {}
  ~CardMoments() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  void note(size_t i) override {
    const OnCard on(stream_.device);
    while (events_.size() <= i) check(cudaEventCreate(&events_.emplace_back()), "an event");
    check(cudaEventRecord(events_[i], stream_.stream), "an event");
  }
  [[nodiscard]] double seconds(size_t from, size_t to) const override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, events_[from], events_[to]), "the time of events");
    return milliseconds * 1e-3;
  }

 private:
  const OwnStream& stream_;
  std::vector<cudaEvent_t> events_;
};

/// Copies of the host's memory on the stream.
class CardCopies final : public CopyEngine {
 public:
  explicit CardCopies(const OwnStream& stream) : stream_(stream) {
    const OnCard on(stream_.device);
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, kUploadBytes, cudaHostAllocDefault),
          std::to_string(kUploadBytes) + " bytes of the host's memory that a card reads");
    pinned_.reset(static_cast<std::byte*>(memory));
    for (Event& event : ended_) {
      cudaEvent_t made = nullptr;
      check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "an event");
      event.reset(made);
    }
  }

  std::byte* pinned() override { return pinned_.get(); }
  void send(size_t piece, std::byte* to, const std::byte* from, size_t bytes) override {
    const OnCard on(stream_.device);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_.stream), "a copy");
    const cudaError_t noted = cudaEventRecord(ended_[piece].get(), stream_.stream);
    if (noted != cudaSuccess) cudaStreamSynchronize(stream_.stream);
    check(noted, "an event");
  }
  void wait(size_t piece) override {
    check(cudaEventSynchronize(ended_[piece].get()), "the kernels before a copy");
  }

 private:
  struct FreeHost {
    void operator()(std::byte* memory) const { cudaFreeHost(memory); }
  };
  struct DestroyEvent {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

  const OwnStream& stream_;
  std::unique_ptr<std::byte, FreeHost> pinned_;
  std::array<Event, kUploadPieces> ended_;
};

class CardGraph final : public Graph {
 public:
  CardGraph(cudaGraph_t graph, const OwnStream& stream) : stream_(stream) {
    check(cudaGraphInstantiate(&graph_, graph, 0), "a graph");
  }
  ~CardGraph() override { cudaGraphExecDestroy(graph_); }
  void launch() override {
    const OnCard on(stream_.device);
    check(cudaGraphLaunch(graph_, stream_.stream), "a graph");
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
  const OwnStream& stream_;
};

constexpr size_t kHeldBytes = size_t{256} << 20;  ///< for operands as the library takes them

class CardBackend final : public KernelBackend {
 public:
  CardBackend(bool exact, std::unique_ptr<OwnStream> stream)
      : KernelBackend(std::make_unique<CardMoments>(*stream)), stream_(std::move(stream)) {
    const OnCard on(stream_->device);
    if (!exact) {
      scratch_bytes_ = kHeldBytes;
      units_ = make_card_units(*stream_, stream_->card);
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

  [[nodiscard]] std::string device_name() const override { return name_of_card(stream_->device); }

  std::byte* allocate(size_t bytes) override {
    const OnCard on(stream_->device);
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes > 0 ? bytes : 1), std::to_string(bytes) + " bytes of memory");
    check(cudaMemsetAsync(memory, 0, bytes, stream_->stream), "zeros");
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory, size_t /* bytes */) override {
    const OnCard on(stream_->device);
    cudaFree(memory);
  }

  void upload(std::byte* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    refuse_in_capture();
    end_clock();
    uploads_.upload(to, from, bytes);
  }
  /// Waits for all that was launched.
  void download(void* to, const std::byte* from, size_t bytes) const override {
    if (bytes == 0) return;
    const OnCard on(stream_->device);
    end_clock();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_->stream), "a copy");
    check(cudaStreamSynchronize(stream_->stream), "the kernels before a copy");
    collect_seconds();
  }

  [[nodiscard]] bool is_in_hosts_reach() const override { return false; }
  void use_stream(void* stream) override {
    leave_own_stream();
    stream_->change_to(static_cast<cudaStream_t>(stream));
  }
  void execute(const Operation& operation) override {
    const OnCard on(stream_->device);
    KernelBackend::execute(operation);
    std::visit([](const auto& op) { check(cudaGetLastError(), op.kName); }, operation);
  }
  std::unique_ptr<RepeatedStep> make_repeated_step() override {
    const char* const wish = std::getenv("NARROWGAUGE_CUDA_GRAPHS");
    if (wish != nullptr && std::string_view(wish) == "0") return std::make_unique<RepeatedStep>();
    return KernelBackend::make_repeated_step();
  }

  [[nodiscard]] std::string device_address() const override {
    return has_nccl() ? card_address(stream_->device) : "";
  }
  std::unique_ptr<DeviceMessages> make_device_messages(int rank, int ranks,
                                                       const FromFirst& share) override {
    return make_nccl_messages({stream_->device, *stream_}, rank, ranks, share);
  }

 private:
  Stream stream() override { return stream_.get(); }
  void begin_capture() override {
    const OnCard on(stream_->device);
    check(cudaStreamBeginCapture(stream_->stream, cudaStreamCaptureModeThreadLocal), "a capture");
  }
  std::unique_ptr<Graph> end_capture() override {
    const OnCard on(stream_->device);
    cudaGraph_t captured = nullptr;
    check(cudaStreamEndCapture(stream_->stream, &captured), "a capture");
    const std::unique_ptr<CUgraph_st, cudaError_t (*)(cudaGraph_t)> graph(captured,
                                                                          cudaGraphDestroy);
    return std::make_unique<CardGraph>(graph.get(), *stream_);
  }
  void abandon_capture() noexcept override {
    cudaGraph_t captured = nullptr;
    if (cudaStreamEndCapture(stream_->stream, &captured) == cudaSuccess) cudaGraphDestroy(captured);
    (void)cudaGetLastError();  // what kept it from its end is thrown already
  }

  void synchronize() const override {
    const OnCard on(stream_->device);
    check(cudaStreamSynchronize(stream_->stream), "the kernels so far");
  }

  /// A graph would fetch again what lies in that piece of the ring by then. Whose graph it is, ours
  /// or that of the stream's owner, only the card knows.
  void refuse_in_capture() const {
    const OnCard on(stream_->device);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream_->stream, &status), "a stream");
    if (status != cudaStreamCaptureStatusNone)
      check(cudaErrorStreamCaptureUnsupported, "a copy of the host's memory");
  }

  std::unique_ptr<OwnStream> stream_;
  UploadRing uploads_{std::make_unique<CardCopies>(*stream_)};  // ends before its stream
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Backend> make_cuda_backend(bool exact, int device) {
  return std::make_unique<cuda::CardBackend>(exact, std::make_unique<cuda::OwnStream>(device));
}

}  // namespace ng
