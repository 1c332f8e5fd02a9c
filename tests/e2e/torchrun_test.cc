// Ranks by what torchrun says in the environment: they meet by TCP, without MPI.
#include <memory>
#include <thread>

#include "base/error.h"
#include "comm/sockets.h"
#include "e2e/program.h"
#include "mpi/tiny_run.h"

namespace ng::e2e {
namespace {

class Torchrun : public Program {
 protected:
  void SetUp() override { write_tiny_texts(folder_); }

  /// What a rank is told.
  [[nodiscard]] static std::function<void()> told(int rank, int ranks, int port) {
    return [=] {
      const auto say = [](const char* name, const std::string& value) {
        ::setenv(name, value.c_str(), 1);
      };
      say("RANK", std::to_string(rank));
      say("WORLD_SIZE", std::to_string(ranks));
      say("MASTER_ADDR", "localhost");
      say("MASTER_PORT", std::to_string(port));
    };
  }
  /// How each rank ends.
  [[nodiscard]] std::vector<Result> start(const std::vector<std::vector<std::string>>& words) {
    const int port = tcp::Listener(0).port();
    const auto ranks = static_cast<int>(words.size());
    std::vector<std::unique_ptr<Process>> processes;
    for (int rank = 0; rank < ranks; ++rank)
      processes.push_back(std::make_unique<Process>(words[static_cast<size_t>(rank)], folder_, "",
                                                    "/dev/null", told(rank, ranks, port)));
    std::vector<Result> results;
    for (const auto& process : processes) results.push_back(process->wait());
    return results;
  }
};

TEST_F(Torchrun, TwoRanksEndInTheBitsOfOneProcess) {
  write_tiny_run(path("run.toml"), {.steps = 3, .micros_of_rank = 4});
  const Result one = run({"train", "run.toml", "--out", "one"});
  ASSERT_EQ(one.code, 0) << one.err;
  const std::vector<std::string> words = {"train", "run.toml", "--set", "train.accumulate=2",
                                          "--out", "run"};
  for (const Result& rank : start({words, words})) EXPECT_EQ(rank.code, 0) << rank.err;
  EXPECT_TRUE(weights("run") == weights("one"));
}

// Where torchrun's own store listens on the port.
TEST_F(Torchrun, RanksMeetBesideTheStoreOfTheAgent) {
  write_tiny_run(path("run.toml"), {.steps = 1, .micros_of_rank = 1});
  const std::vector<std::string> words = {"train", "run.toml", "--out", "run"};
  const tcp::Listener store(0);
  const int port = store.port();
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::make_unique<Process>(words, folder_, "", "/dev/null", [&, rank] {
      told(rank, 2, port)();
      ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    }));
  for (const auto& rank : ranks) {
    const Result result = rank->wait();
    EXPECT_EQ(result.code, 0) << result.err;
  }
}

// 3: `supervise` goes on then.
TEST_F(Torchrun, ARankThatIsKilledEndsTheOtherWithTheCodeOfALostOne) {
  write_tiny_run(path("run.toml"), {.steps = 1'000'000, .micros_of_rank = 1});
  const std::vector<std::string> words = {"train", "run.toml", "--out", "run"};
  const int port = tcp::Listener(0).port();
  Process first(words, folder_, "", "/dev/null", told(0, 2, port));
  Process second(words, folder_, "", "/dev/null", told(1, 2, port));
  for (int i = 0; i < 600 && !fs::exists(path("run/checkpoints")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  second.send(SIGKILL);
  const Result result = first.wait();
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_NE(result.err.find("rank 1 is gone"), std::string::npos) << result.err;
}

// What one rank meets alone is said with its number, and the other ends too.
TEST_F(Torchrun, ARankThatFailsEndsTheOther) {
  write_tiny_run(path("run.toml"), {.steps = 3, .micros_of_rank = 2});
  const std::vector<Result> ranks =
      start({{"train", "run.toml", "--out", "run"}, {"train", "no.toml", "--out", "run"}});
  for (const Result& rank : ranks) EXPECT_NE(rank.code, 0);
  EXPECT_NE((ranks[0].err + ranks[1].err).find("no.toml"), std::string::npos)
      << ranks[0].err << ranks[1].err;
}

}  // namespace
}  // namespace ng::e2e
