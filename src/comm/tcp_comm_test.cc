// Ranks that meet by TCP on this host, each in a thread of its own.
#include "comm/tcp_comm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "support/comm_cases.h"

namespace ng {
namespace {

using std::chrono::milliseconds;

/// A port that was free a moment ago.
int free_port() { return tcp::Listener(0).port(); }

/// What each rank's `body` throws, by rank; "" where nothing.
std::vector<std::string> run_by_tcp(int ranks, const std::function<void(Comm&)>& body,
                                    milliseconds patience = milliseconds(20'000)) {
  const tcp::Address at{"localhost", free_port()};
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(*tcp::world(at, rank, ranks, patience));
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  threads.clear();
  return errors;
}

TEST(TcpRanks, DoEverything) {
  for (const int ranks : {1, 2, 3, 5})
    EXPECT_EQ(run_by_tcp(ranks, comm_cases::everything),
              std::vector<std::string>(static_cast<size_t>(ranks)))
        << ranks;
}

// Groups of groups, and two of the same ranks that other threads use at the same time.
TEST(TcpRanks, GroupsDoNotHearOneAnother) {
  const auto body = [](Comm& comm) {
    const std::unique_ptr<Comm> first = comm.split(0), second = comm.split(0);
    const std::unique_ptr<Comm> half = first->split(comm.rank() % 2);
    std::jthread other([&] { comm_cases::everything(*second); });
    comm_cases::everything(*half);
    comm_cases::everything(*first);
  };
  EXPECT_EQ(run_by_tcp(4, body), std::vector<std::string>(4));
}

TEST(TcpRanks, ARankThatIsGoneIsNamed) {
  const std::vector<std::string> errors = run_by_tcp(3, [](Comm& comm) {
    if (comm.rank() != 1) comm.barrier();
  });
  EXPECT_EQ(errors[1], "");
  for (const size_t rank : {0, 2})
    EXPECT_NE(errors[rank].find("TCP: rank 1 is gone"), std::string::npos) << errors[rank];
}

// Who does not greet as a rank does is not heard, whether it says something else or nothing.
TEST(TcpRanks, StrangersDoNotDisturb) {
  const tcp::Address at{"localhost", free_port()};
  const auto until = std::chrono::steady_clock::now() + milliseconds(20'000);
  std::atomic<bool> has_met = false;
  std::jthread first([&] {
    comm_cases::everything(*tcp::world(at, 0, 2, milliseconds(20'000)));
    has_met = true;
  });
  {
    const tcp::Socket stranger = tcp::connect(at, until);
    const std::string words = "GET / HTTP/1.1\r\nHost: somewhere.else\r\n\r\n";
    EXPECT_TRUE(stranger.send_all(std::as_bytes(std::span(words)), until));
    (void)tcp::connect(at, until);
  }
  comm_cases::everything(*tcp::world(at, 1, 2, milliseconds(20'000)));
  first.join();
  EXPECT_TRUE(has_met);
}

TEST(TcpRanks, WhoDoesNotComeIsNamed) {
  try {
    (void)tcp::world({"localhost", free_port()}, 0, 2, milliseconds(200));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1 of 2 did not come"), std::string::npos)
        << error.what();
  }
  try {
    (void)tcp::world({"localhost", free_port()}, 1, 2, milliseconds(200));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("Connection refused"), std::string::npos)
        << error.what();
  }
}

TEST(TcpRanks, APortThatIsTakenIsNamed) {
  const tcp::Listener taken(0);
  try {
    (void)tcp::world({"localhost", taken.port()}, 0, 2, milliseconds(200));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(taken.port())), std::string::npos)
        << error.what();
  }
}

TEST(TcpRanks, WorldsOfOtherSizesDoNotMeet) {
  const tcp::Address at{"localhost", free_port()};
  std::string said;
  std::jthread first([&] {
    try {
      (void)tcp::world(at, 0, 2, milliseconds(5'000));
    } catch (const Error& error) {
      said = error.what();
    }
  });
  EXPECT_THROW((void)tcp::world(at, 1, 3, milliseconds(5'000)), Error);
  first.join();
  EXPECT_NE(said.find("there are 3 of them, not 2"), std::string::npos) << said;
}

}  // namespace
}  // namespace ng
