#include "backend/cuda/card/nccl.h"

#include <unistd.h>

#include <array>
#include <exception>

#include "backend/cuda/card/runtime.h"
#include "base/patience.h"
#include "base/shared_library.h"

namespace ng::cuda {

std::string card_address(int device) {
  std::array<char, 256> host{}, place{};
  if (gethostname(host.data(), host.size() - 1) != 0 ||
      cudaDeviceGetPCIBusId(place.data(), place.size(), device) != cudaSuccess)
    return {};
  return std::string(host.data()) + " " + place.data();
}

}  // namespace ng::cuda

#if __has_include(<nccl.h>)

#include <nccl.h>

namespace ng::cuda {
namespace {

/// The functions that are needed of it.
struct NcclLibrary {
  decltype(&ncclGetUniqueId) get_id = nullptr;
  decltype(&ncclCommInitRank) start = nullptr;
  decltype(&ncclCommDestroy) end = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) failure_of = nullptr;
  decltype(&ncclGroupStart) begin_group = nullptr;
  decltype(&ncclGroupEnd) end_group = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGetErrorString) text_of = nullptr;
  bool is_there = false;

  NcclLibrary() {
    const SharedLibrary library("libnccl.so.2");
    is_there = library.find("ncclGetUniqueId", get_id) && library.find("ncclCommInitRank", start) &&
               library.find("ncclCommDestroy", end) && library.find("ncclCommAbort", abort) &&
               library.find("ncclCommGetAsyncError", failure_of) &&
               library.find("ncclGroupStart", begin_group) &&
               library.find("ncclGroupEnd", end_group) && library.find("ncclSend", send) &&
               library.find("ncclRecv", receive) && library.find("ncclGetErrorString", text_of);
  }
};

const NcclLibrary& nccl() {
  static const NcclLibrary library;
  return library;
}

void check_nccl(ncclResult_t code, const char* what) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  throw Error({.place = "NCCL",
               .key = what,
               .problem = nccl().text_of(code),
               .remedy =
                   "NCCL_DEBUG=INFO says more; NCCL_P2P_DISABLE=1 or NCCL_NET=Socket if cards "
                   "or hosts do not reach one another"});
}

class NcclMessages final : public DeviceMessages {
 public:
  NcclMessages(const ComputingCard& card, int rank, int ranks, const ncclUniqueId& id)
      : card_(card) {
    const OnCard on(card_.device);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream of messages");
    check(cudaEventCreateWithFlags(&computed_, cudaEventDisableTiming), "an event");
    check_nccl(nccl().start(&comm_, ranks, id, rank), "ncclCommInitRank");
  }
  /// Ranks end a communicator together; one that fails does not wait for the others.
  ~NcclMessages() override {
    if (comm_ != nullptr)
      (has_failed_ || std::uncaught_exceptions() > 0 ? nccl().abort : nccl().end)(comm_);
    cudaEventDestroy(computed_);
    cudaStreamDestroy(stream_);
  }

  void exchange(std::span<const DeviceMessage> out, std::span<const DeviceMessage> in) override {
    try {
      const OnCard on(card_.device);  // of a thread of its own
      check(cudaEventRecord(computed_, card_.stream.stream), "an event");
      check(cudaStreamWaitEvent(stream_, computed_, 0), "an event");
      check_nccl(nccl().begin_group(), "ncclGroupStart");
      ncclResult_t code = ncclSuccess;
      for (const DeviceMessage& m : out)
        if (m.size > 0 && code == ncclSuccess)
          code = nccl().send(m.bytes, m.size, ncclUint8, m.rank, comm_, stream_);
      for (const DeviceMessage& m : in)
        if (m.size > 0 && code == ncclSuccess)
          code = nccl().receive(m.bytes, m.size, ncclUint8, m.rank, comm_, stream_);
      const ncclResult_t ended = nccl().end_group();  // whatever is in it
      check_nccl(code, "ncclSend, ncclRecv");
      check_nccl(ended, "ncclGroupEnd");
      wait();
    } catch (...) {
      has_failed_ = true;
      throw;
    }
  }

 private:
  /// Until all has passed, or NCCL says that a rank is out of reach.
  void wait() const {
    wait_until([this] {
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state != cudaErrorNotReady) check(state, "messages");
      ncclResult_t failure = ncclSuccess;
      check_nccl(nccl().failure_of(comm_, &failure), "ncclCommGetAsyncError");
      check_nccl(failure, "messages");
      return state == cudaSuccess;
    });
  }

  ComputingCard card_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t computed_ = nullptr;
  ncclComm_t comm_ = nullptr;
  bool has_failed_ = false;
};

}  // namespace

bool has_nccl() { return nccl().is_there; }

std::unique_ptr<DeviceMessages> make_nccl_messages(const ComputingCard& card, int rank, int ranks,
                                                   const FromFirst& share) {
  ncclUniqueId id{};
  if (rank == 0) check_nccl(nccl().get_id(&id), "ncclGetUniqueId");
  share(std::as_writable_bytes(std::span(&id, 1)));
  return std::make_unique<NcclMessages>(card, rank, ranks, id);
}

}  // namespace ng::cuda

#else

namespace ng::cuda {

bool has_nccl() { return false; }

std::unique_ptr<DeviceMessages> make_nccl_messages(const ComputingCard& /* card */, int /* rank */,
                                                   int /* ranks */, const FromFirst& /* share */) {
  return nullptr;
}

}  // namespace ng::cuda

#endif
