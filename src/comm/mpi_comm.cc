#include "comm/mpi_comm.h"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/patience.h"

namespace ng::mpi {
namespace {

// Of messages between two ranks: sent ones never meet those of an exchange.
constexpr int kMessageTag = 0, kExchangeTag = 1;

void check(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw LostRank({.place = "MPI",
                  .key = std::string(call),
                  .problem = std::string(text, static_cast<size_t>(length))});
}

bool is_running() {
  int is_initialized = 0, is_finalized = 0;
  MPI_Initialized(&is_initialized);
  MPI_Finalized(&is_finalized);
  return is_initialized != 0 && is_finalized == 0;
}

void initialize() {
  if (is_running()) return;
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_MULTIPLE)  // messages travel while others are sent
    throw Error({.place = "MPI",
                 .key = "MPI_Init_thread",
                 .problem = "this MPI does not let threads call it at the same time",
                 .remedy = "one built with support for threads"});
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

/// An MPI communicator of its own; errors are returned.
class Group {
 public:
  explicit Group(MPI_Comm comm) : comm_(comm) {
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  ~Group() {
    if (comm_ != MPI_COMM_NULL && is_running()) MPI_Comm_free(&comm_);
  }
  Group(Group&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  Group& operator=(Group&&) = delete;

  [[nodiscard]] MPI_Comm get() const { return comm_; }
  [[nodiscard]] int rank() const {
    int rank = 0;
    check(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
    return rank;
  }
  [[nodiscard]] int ranks() const {
    int ranks = 0;
    check(MPI_Comm_size(comm_, &ranks), "MPI_Comm_size");
    return ranks;
  }

 private:
  MPI_Comm comm_;
};

/// Calls each(first, count) for pieces of [0, bytes), none where there are no bytes.
template <class Each>
void in_pieces(size_t bytes, size_t most, const Each& each) {
  for (size_t first = 0; first < bytes; first += most)
    each(first, static_cast<int>(std::min(most, bytes - first)));
}

class MpiRank : public Comm {
 public:
  MpiRank(Group group, size_t most)
      : Comm(group.rank(), group.ranks()), group_(std::move(group)), most_(most) {}

  [[nodiscard]] std::unique_ptr<Comm> split(int color) override {
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(group_.get(), color, rank(), &part), "MPI_Comm_split");
    return std::make_unique<MpiRank>(Group(part), most_);
  }

 private:
  void do_exchange(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    std::vector<MPI_Request> requests;
    for (const Incoming& message : in) start_receiving(message.bytes, message.from, requests);
    for (const Outgoing& message : out) start_sending(message.bytes, message.to, requests);
    wait_for(requests);
  }
  // MPI_Waitall would take a core for itself, which others compute on.
  static void wait_for(std::vector<MPI_Request>& requests) {
    wait_until([&] {
      int is_done = 0;
      check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &is_done,
                        MPI_STATUSES_IGNORE),
            "MPI_Testall");
      return is_done != 0;
    });
  }
  void start_receiving(std::span<std::byte> bytes, int from, std::vector<MPI_Request>& requests) {
    in_pieces(bytes.size(), most_, [&](size_t first, int count) {
      check(MPI_Irecv(bytes.data() + first, count, MPI_BYTE, from, kExchangeTag, group_.get(),
                      &requests.emplace_back()),
            "MPI_Irecv");
    });
  }
  void start_sending(std::span<const std::byte> bytes, int to, std::vector<MPI_Request>& requests) {
    in_pieces(bytes.size(), most_, [&](size_t first, int count) {
      check(MPI_Isend(bytes.data() + first, count, MPI_BYTE, to, kExchangeTag, group_.get(),
                      &requests.emplace_back()),
            "MPI_Isend");
    });
  }

  void do_all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     BytesByRank bytes) override {
    std::vector<size_t> first(bytes.size());
    for (size_t i = 1; i < bytes.size(); ++i) first[i] = first[i - 1] + bytes[i - 1];
    std::byte* const own = all.data() + first[static_cast<size_t>(rank())];
    if (!mine.empty() && own != mine.data()) std::memcpy(own, mine.data(), mine.size());
    if (all.size() > most_) {
      for (int root = 0; root < ranks(); ++root) {
        const auto at = static_cast<size_t>(root);
        do_broadcast(all.subspan(first[at], bytes[at]), root);
      }
      return;
    }
    const std::vector<int> counts(bytes.begin(), bytes.end()), places(first.begin(), first.end());
    check(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), counts.data(),
                         places.data(), MPI_BYTE, group_.get()),
          "MPI_Allgatherv");
  }

  void do_broadcast(std::span<std::byte> bytes, int root) override {
    in_pieces(bytes.size(), most_, [&](size_t first, int count) {
      check(MPI_Bcast(bytes.data() + first, count, MPI_BYTE, root, group_.get()), "MPI_Bcast");
    });
  }

  void do_send(std::span<const std::byte> bytes, int to) override {
    in_pieces(bytes.size(), most_, [&](size_t first, int count) {
      check(MPI_Send(bytes.data() + first, count, MPI_BYTE, to, kMessageTag, group_.get()),
            "MPI_Send");
    });
  }
  void do_receive(std::span<std::byte> bytes, int from) override {
    in_pieces(bytes.size(), most_, [&](size_t first, int count) {
      check(MPI_Recv(bytes.data() + first, count, MPI_BYTE, from, kMessageTag, group_.get(),
                     MPI_STATUS_IGNORE),
            "MPI_Recv");
    });
  }

  void do_barrier() override { check(MPI_Barrier(group_.get()), "MPI_Barrier"); }

  Group group_;
  size_t most_;
};

}  // namespace

std::unique_ptr<Comm> world(size_t most_bytes_of_message) {
  initialize();
  MPI_Comm all = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &all), "MPI_Comm_dup");
  return std::make_unique<MpiRank>(Group(all), most_bytes_of_message);
}

void finalize() {
  if (is_running()) check(MPI_Finalize(), "MPI_Finalize");
}

void abort(int code) {
  if (is_running()) MPI_Abort(MPI_COMM_WORLD, code);
}

}  // namespace ng::mpi
