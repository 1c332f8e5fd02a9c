// metrics.jsonl when a run goes on: good lines stay, and old ones until something new is safe.
#include "train/metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"

namespace ng {
namespace {

class Metrics : public testing::Test {
 protected:
  Metrics() : folder_(join_path(testing::TempDir(), fmt::format("metrics_test_{}", ::getpid()))) {
    remove_all(folder_);
    make_folders(folder_);
  }
  ~Metrics() override { remove_all(folder_); }

  static std::string line(int64_t step) {
    return fmt::format("{{\"loss\":2.5,\"step\":{}}}\n", step);
  }
  static std::string lines(int64_t steps) {
    std::string text;
    for (int64_t step = 1; step <= steps; ++step) text += line(step);
    return text;
  }
  [[nodiscard]] std::string path() const { return join_path(folder_, "metrics.jsonl"); }
  [[nodiscard]] std::string text() const { return read_file(path(), 1 << 20); }
  void put(const std::string& text) const { write_file_atomically(path(), text); }
  [[nodiscard]] std::unique_ptr<MetricsFile> open(int64_t last_step) {
    return std::make_unique<MetricsFile>(path(), last_step,
                                         [&](const std::string& what) { heard_ = what; });
  }
  /// What a process leaves that is killed after a line of `step`.
  void open_and_kill(int64_t last_step, int64_t step) {
    const auto file = open(last_step);
    file->event("resume", step);
    file->keep_both();
  }

  std::string folder_, heard_;
};

TEST_F(Metrics, ADamagedLineCostsNoOther) {
  for (const char* damaged :
       {"{", "", "null", "[1]", "{\"step\":\"x\"}", "\xFF", "{\"step\":-1}"}) {
    for (int64_t at = 1; at <= 4; ++at) {
      std::string before, want;
      for (int64_t step = 1; step <= 6; ++step) {
        before += step == at ? damaged + std::string("\n") : line(step);
        if (step != at && step <= 4) want += line(step);
      }
      put(before + "{\"step\":7,\"lo");
      heard_.clear();
      open(4)->saved();
      EXPECT_EQ(text(), want) << damaged;
      EXPECT_EQ(heard_.empty(), at == 4) << "what no good line follows is torn";
    }
  }
  put(lines(4));
  open(4)->saved();
  EXPECT_EQ(text(), lines(4));
}

TEST_F(Metrics, OldLinesComeBackWhereNothingWasSaved) {
  for (const int64_t last_step : {0, 3}) {
    put(lines(6));
    open(last_step)->event("resume", last_step);
    EXPECT_EQ(text(), lines(6));
  }
  open(3)->saved();
  EXPECT_EQ(text(), lines(3));
  EXPECT_EQ(list_folder(folder_), std::vector<std::string>{"metrics.jsonl"});
}

TEST_F(Metrics, OldLinesComeBackAfterAKill) {
  put(lines(6));
  for (const int64_t last_step : {3, 3, 0, 0}) {
    open_and_kill(last_step, last_step);
    EXPECT_EQ(list_folder(folder_).size(), 2u);
  }
  (void)open(0);
  EXPECT_EQ(text(), lines(6));
}

TEST_F(Metrics, LinesOfACheckpointStayAfterAKill) {
  put(lines(6));
  {
    const auto file = open(3);
    StepMetrics metrics;
    metrics.step = 4;
    metrics.loss = 1;
    file->write(metrics, Json(), Json(), Json());
    file->keep_both();  // killed when the checkpoint of step 4 was just there
  }
  const std::string with_new_step = text();
  open(4)->saved();
  EXPECT_EQ(text(), with_new_step);
  EXPECT_EQ(list_folder(folder_), std::vector<std::string>{"metrics.jsonl"});
}

}  // namespace
}  // namespace ng
