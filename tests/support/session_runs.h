// Whole runs in a folder of their own: a tiny model, a text of numbers, a listener.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "train/session.h"

namespace ng {

inline constexpr size_t kMaxFile = 10'000'000;

inline const char* const kSmallRun =
    "seed = 3\n"
    "model = { layers=1, heads=2, kv_heads=1, head_dim=6, width=12, ffn=20, context=8 }\n"
    "data.validation = 0.05\n"
    "train = { steps=6, batch=2, warmup=2, lr=1e-2, validate_every=3, checkpoint_every=2,"
    " threads=1 }\n";

/// Remembers what it hears, and may act on it.
struct Listener : SessionObserver {
  void notice(const std::string& text) override { notices.push_back(text); }
  void line(const Json& object) override { lines.push_back(object); }
  void step(const StepMetrics& metrics) override {
    if (first_step == 0) first_step = metrics.step;
    if (metrics.step == stop_after) stop = true;
    if (on_step) on_step(metrics.step);
  }
  void checkpoint(int64_t step) override {
    if (on_checkpoint) on_checkpoint(step);
  }

  [[nodiscard]] bool heard(std::string_view part) const {
    for (const std::string& text : notices)
      if (text.find(part) != std::string::npos) return true;
    return false;
  }

  std::vector<std::string> notices;
  std::vector<Json> lines;  ///< of metrics.jsonl
  int64_t first_step = 0;
  int64_t stop_after = -1;
  std::atomic<bool> stop = false;
  std::function<void(int64_t)> on_step, on_checkpoint;
};

/// All files below a folder: relative path -> content.
inline std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  if (!is_folder(folder)) return files;
  for (const std::string& name : list_folder(folder)) {
    const std::string path = join_path(folder, name);
    if (is_file(path)) files[name] = read_file(path, kMaxFile);
    if (!is_folder(path)) continue;
    for (const auto& [inner, content] : contents(path)) files[join_path(name, inner)] = content;
  }
  return files;
}

class SessionRuns : public testing::Test {
 protected:
  void SetUp() override {
    // In memory where that is possible: these runs sync thousands of times.
    const bool memory = ::access("/dev/shm", W_OK | X_OK) == 0;
    folder_ = join_path(memory ? "/dev/shm" : testing::TempDir(),
                        fmt::format("session_test_{}", ::getpid()));
    remove_all(folder_);
    make_folders(folder_);
    std::string text;
    for (int i = 0; i < 60; ++i) text += fmt::format("{} plus {} is {}. ", i, i * i, i + i * i);
    write_file_atomically(in("text.txt"), text);
  }
  void TearDown() override { remove_all(folder_); }

  [[nodiscard]] std::string in(std::string_view name) const { return join_path(folder_, name); }
  [[nodiscard]] std::string checkpoint(int64_t step) const {
    return in(fmt::format("out/checkpoints/step-{:08}", step));
  }

  [[nodiscard]] RunConfig config(std::vector<std::string> settings = {}) const {
    settings.insert(settings.begin(), "data.train=" + in("text.txt"));
    return RunConfig::parse(kSmallRun, "run.toml", settings);
  }
  [[nodiscard]] std::string recipe_file(const std::string& toml) const {
    write_file_atomically(in("recipe.toml"), toml);
    return "recipe=" + in("recipe.toml");
  }

  SessionResult train(const RunConfig& config, Listener& listener, bool resume = false,
                      const std::string& out = "out") const {
    Session session(config, {.out = in(out), .resume = resume, .stop = &listener.stop}, listener);
    return session.train();
  }
  SessionResult resume(const RunConfig& config) const {
    Listener listener;
    return train(config, listener, true);
  }
  /// Trains and stops after `steps` steps, with a checkpoint.
  void interrupt(const RunConfig& config, int64_t steps, bool resume = false) const {
    Listener listener;
    listener.stop_after = steps;
    const SessionResult result = train(config, listener, resume);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.steps, steps);
  }

  /// The one line of the Error that training ends in.
  [[nodiscard]] std::string refusal(const RunConfig& config, bool resume) const {
    Listener listener;
    try {
      train(config, listener, resume);
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
      return error.what();
    }
    ADD_FAILURE() << "trained";
    return "";
  }

  /// What an unbroken run leaves.
  [[nodiscard]] std::map<std::string, std::string> unbroken(const RunConfig& config) const {
    Listener listener;
    train(config, listener, false, "unbroken");
    return contents(in("unbroken"));
  }

  /// Model folder and last checkpoint equal those of the unbroken run.
  void expect_same_end(const std::map<std::string, std::string>& want, int64_t steps) const {
    const std::map<std::string, std::string> have = contents(in("out"));
    const std::string last = fmt::format("checkpoints/step-{:08}/", steps);
    size_t compared = 0;
    for (const auto& [path, content] : want) {
      if (!path.starts_with("model/") && !path.starts_with(last)) continue;
      ASSERT_TRUE(have.contains(path)) << path;
      ASSERT_TRUE(have.at(path) == content) << path << " differs";
      ++compared;
    }
    EXPECT_GE(compared, 6u);
  }

  /// A run of six steps that is validated every three ends in the bits of an unbroken one wherever
  /// it is interrupted, and goes on with other threads and recomputation. `of(settings)`: its file.
  template <class Of>
  void expect_same_end_where_interrupted(const Of& of, std::vector<std::string> settings) const {
    const auto want = unbroken(of(settings));
    const RunConfig first = of(settings);
    settings.insert(settings.end(), {"train.threads=2", "train.recompute=block"});
    for (int64_t steps = 1; steps < 6; steps += 2) {
      remove_all(in("out"));
      interrupt(first, steps);
      EXPECT_EQ(resume(of(settings)).steps, 6);
      expect_same_end(want, 6);
      expect_whole_metrics(6, 3);
    }
  }

  /// Of the run in out.
  [[nodiscard]] std::vector<Json> metrics_lines() const {
    const std::string text = read_file(in("out/metrics.jsonl"), kMaxFile);
    EXPECT_TRUE(text.ends_with('\n'));
    std::vector<Json> lines;
    for (size_t begin = 0, end = text.find('\n'); end != std::string::npos;
         begin = end + 1, end = text.find('\n', begin))
      lines.push_back(Json::parse(text.substr(begin, end - begin)));
    return lines;
  }

  /// Steps 1 ... `steps` once each and in order, each due validation once, complete lines only.
  void expect_whole_metrics(int64_t steps, int64_t validate_every) const {
    std::vector<int64_t> trained, validated, want_trained, want_validated;
    for (const Json& line : metrics_lines()) {
      if (line.contains("loss")) trained.push_back(line["step"]);
      if (line.contains("val_loss")) validated.push_back(line["step"]);
    }
    for (int64_t step = 1; step <= steps; ++step) {
      want_trained.push_back(step);
      if (step % validate_every == 0 || step == steps) want_validated.push_back(step);
    }
    EXPECT_EQ(trained, want_trained);
    EXPECT_EQ(validated, want_validated);
  }

  std::string folder_;
};

}  // namespace ng
