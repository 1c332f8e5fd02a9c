#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/emulated/matmul.h"
#include "backend/cuda/emulated/memory.h"
#include "backend/cuda/emulated/messages.h"
#include "backend/cuda/kernel_backend.h"
#include "backend/cuda/upload_ring.h"

namespace ng {
namespace cuda {
namespace {

class EmulatedUnits final : public Units {
 public:
  EmulatedUnits(emulated::Device& device, const emulated::Memory& memory)
      : device_(device), memory_(memory) {}
  [[nodiscard]] const Card& card() const override { return device_.card(); }
  [[nodiscard]] std::string refusal(const Matmul& product) override {
    return matmul_refusal(device_.card(), product);
  }
  [[nodiscard]] SumUnits of_fp8() const override { return SumUnits::fp32; }
  void multiply(const Matmul& product) override {
    device_.call([this, product] {
      const emulated::Memory::Reach reach(&memory_);
      emulated::matmul(device_, product);
    });
  }

 private:
  emulated::Device& device_;
  const emulated::Memory& memory_;
};

/// The host's, for the emulated card ends each launch before the next.
class HostMoments final : public Moments {
 public:
  void note(size_t i) override {
    if (i >= moments_.size()) moments_.resize(i + 1);
    moments_[i] = std::chrono::steady_clock::now();
  }
  [[nodiscard]] double seconds(size_t from, size_t to) const override {
    return std::chrono::duration<double>(moments_[to] - moments_[from]).count();
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> moments_;
};

/// How often the host waits for the card, where somebody counts.
class Waits {
 public:
  explicit Waits(std::atomic<int64_t>* count) : count_(count) {}
  void count() const {
    if (count_ != nullptr) ++*count_;
  }

 private:
  std::atomic<int64_t>* count_;
};

/// What is sent is copied as late as may be, so that a piece of the ring that is written again too
/// early shows.
class EmulatedCopies final : public CopyEngine {
 public:
  EmulatedCopies(emulated::Memory& memory, Waits waits)
      : memory_(memory), waits_(waits), pinned_(kUploadBytes) {}
  std::byte* pinned() override { return pinned_.data(); }
  void send(size_t piece, std::byte* to, const std::byte* from, size_t bytes) override {
    writes_[piece] = memory_.write_later(to, from, bytes);
  }
  void wait(size_t piece) override {
    if (memory_.has_written(writes_[piece])) return;
    waits_.count();
    const emulated::Memory::Reach all_is_written(&memory_);
  }

 private:
  emulated::Memory& memory_;
  Waits waits_;
  std::vector<std::byte> pinned_;
  std::array<size_t, kUploadPieces> writes_{};
};

class EmulatedGraph final : public Graph {
 public:
  explicit EmulatedGraph(std::vector<std::function<void()>> captured)
      : captured_(std::move(captured)) {}
  void launch() override {
    for (const std::function<void()>& work : captured_) work();
  }

 private:
  std::vector<std::function<void()>> captured_;
};

class EmulatedBackend final : public KernelBackend {
 public:
  explicit EmulatedBackend(const EmulatedCard& card)
      : KernelBackend(std::make_unique<HostMoments>()),
        has_units_(card.has_units),
        has_graphs_(card.has_graphs),
        measured_every_(card.measured_every),
        address_(card.has_messages ? emulated::new_address() : ""),
        waits_(card.host_waits),
        memory_(card.is_managed),
        device_(card_of(card.sm), card.thread_order, &memory_) {
    scratch_ = memory_.allocate(scratch_bytes_);
    if (has_units_) units_ = std::make_unique<EmulatedUnits>(device_, memory_);
  }

  ~EmulatedBackend() override { memory_.release(scratch_); }
  EmulatedBackend(const EmulatedBackend&) = delete;
  EmulatedBackend& operator=(const EmulatedBackend&) = delete;

  [[nodiscard]] std::string_view name() const override {
    if (!has_units_) return "cuda-emulated";
    return device_.card().sm == 100 ? "cuda-emulated-units-100" : "cuda-emulated-units";
  }
  [[nodiscard]] std::string device_name() const override {
    return "emulated card of sm_" + std::to_string(device_.card().sm);
  }
  std::byte* allocate(size_t bytes) override {
    refuse_in_capture("memory that is taken");
    return memory_.allocate(bytes);
  }
  void release(std::byte* memory, size_t /* bytes */) override {
    refuse_in_capture("memory that is released");
    memory_.release(memory);
  }
  void use_stream(void* /* stream */) override { leave_own_stream(); }
  void upload(std::byte* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    refuse_in_capture("memory that is copied");
    end_clock();
    uploads_.upload(to, from, bytes);
  }
  void download(void* to, const std::byte* from, size_t bytes) const override {
    if (bytes == 0) return;
    refuse_in_capture("memory that is copied");
    end_clock();
    waits_.count();
    collect_seconds();
    const emulated::Memory::Reach reach(&memory_);
    std::memcpy(to, from, bytes);
  }
  [[nodiscard]] bool is_in_hosts_reach() const override { return memory_.is_managed(); }
  [[nodiscard]] std::string device_address() const override { return address_; }
  std::unique_ptr<DeviceMessages> make_device_messages(int rank, int /* ranks */,
                                                       const FromFirst& share) override {
    return emulated::make_messages(memory_, rank, share);
  }
  std::unique_ptr<RepeatedStep> make_repeated_step() override {
    if (!has_graphs_) return std::make_unique<RepeatedStep>();
    return std::make_unique<CapturedStep>(*this, measured_every_);
  }

 private:
  Stream stream() override { return &device_; }
  void begin_capture() override { device_.begin_capture(); }
  std::unique_ptr<Graph> end_capture() override {
    return std::make_unique<EmulatedGraph>(device_.end_capture());
  }
  void abandon_capture() noexcept override { (void)device_.end_capture(); }
  void synchronize() const override { waits_.count(); }  // each launch ends before the next

  /// As a card does.
  void refuse_in_capture(std::string_view what) const {
    if (device_.is_capturing())
      throw emulated::Fault(fmt::format("{} while launches are captured", what));
  }

  bool has_units_, has_graphs_;
  int64_t measured_every_;
  std::string address_;
  Waits waits_;
  emulated::Memory memory_;
  emulated::Device device_;
  UploadRing uploads_{std::make_unique<EmulatedCopies>(memory_, waits_)};
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Backend> make_emulated_cuda_backend(const EmulatedCard& card) {
  return std::make_unique<cuda::EmulatedBackend>(card);
}

}  // namespace ng
