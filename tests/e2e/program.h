// Runs the program as a user does, in a folder of its own that goes away.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace ng::e2e {

namespace fs = std::filesystem;

struct Result {
  int code = -1;  ///< exit code, 128 + signal where one ended the program
  std::string out, err;
};

/// A running program.
class Process {
 public:
  /// `output`: a file for standard output; empty: a pipe. `prepare` runs in the child, its
  /// standard streams in place. `program`: another one than that of the tests.
  Process(const std::vector<std::string>& args, const fs::path& folder,
          const std::string& output = "", const std::string& input = "/dev/null",
          const std::function<void()>& prepare = {},
          const char* program = std::getenv("NG_PROGRAM")) {
    if (program == nullptr) throw std::runtime_error("NG_PROGRAM is not set");
    if (::pipe(out_) != 0 || ::pipe(err_) != 0) throw std::runtime_error("no pipe");
    child_ = ::fork();
    if (child_ == 0) {
      if (::chdir(folder.c_str()) != 0) ::_exit(120);
      const int to = output.empty() ? out_[1] : ::open(output.c_str(), O_WRONLY);
      ::dup2(::open(input.c_str(), O_RDONLY), 0);
      ::dup2(to, 1);
      ::dup2(err_[1], 2);
      for (int file = 3; file < 64; ++file) ::close(file);
      if (prepare) prepare();
      std::vector<char*> words = {const_cast<char*>(program)};
      for (const std::string& arg : args) words.push_back(const_cast<char*>(arg.c_str()));
      words.push_back(nullptr);
      ::execv(program, words.data());
      ::_exit(121);
    }
    ::close(out_[1]);
    ::close(err_[1]);
  }
  ~Process() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(int signal) const { ::kill(child_, signal); }

  /// Reads until `enough` of the output says so, or the program ends.
  void read_until(const std::function<bool(const std::string& out)>& enough) {
    pollfd files[] = {{out_[0], POLLIN, 0}, {err_[0], POLLIN, 0}};
    std::string* texts[] = {&result_.out, &result_.err};
    while ((files[0].fd >= 0 || files[1].fd >= 0) && !enough(result_.out)) {
      ::poll(files, 2, -1);
      for (int i = 0; i < 2; ++i) {
        if (files[i].fd < 0 || files[i].revents == 0) continue;
        char buffer[4096];
        const ssize_t count = ::read(files[i].fd, buffer, sizeof buffer);
        if (count <= 0)
          files[i].fd = -1;
        else
          texts[i]->append(buffer, static_cast<size_t>(count));
      }
    }
  }
  Result wait() {
    read_until([](const std::string&) { return false; });
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    ::close(out_[0]);
    ::close(err_[0]);
    result_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result_;
  }

 private:
  int out_[2] = {-1, -1}, err_[2] = {-1, -1};
  pid_t child_ = -1;
  Result result_;
};

inline std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A run of seconds: 98,624 parameters, stochastic rounding, checkpoints. On one thread: a second
/// waits for operations of microseconds, and costs more than it does.
inline const char* kTinyRun = R"(recipe = "mxfp4-sr-rht"
[model]
layers = 2
heads = 2
width = 64
ffn = 128
context = 32
[data]
train = "tiny.txt"
validation_split = "tail"
[train]
steps = 12
batch = 2
accumulate = 2
lr = 3e-3
warmup = 2
validate_every = 6
checkpoint_every = 4
threads = 1
)";

/// A folder with tiny.txt and tiny.toml.
class Program : public ::testing::Test {
 protected:
  Program() {
    std::string pattern = (fs::temp_directory_path() / "ng-e2e-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the quick brown fox jumps over the lazy dog. ";
    write_text(folder_ / "tiny.txt", text);
    write_text(folder_ / "tiny.toml", kTinyRun);
  }
  ~Program() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  [[nodiscard]] Result run(const std::vector<std::string>& args) const {
    return Process(args, folder_).wait();
  }
  /// Runs and expects exit code 0 and silence on standard error, but for where a run goes on.
  [[nodiscard]] std::string run_well(const std::vector<std::string>& args) const {
    const Result result = run(args);
    EXPECT_EQ(result.code, 0) << args.front() << ": " << result.err;
    const bool resumes = result.err.starts_with("narrowgauge: note: resuming at step ") &&
                         result.err.find('\n') + 1 == result.err.size();
    EXPECT_TRUE(result.err.empty() || resumes) << args.front() << ": " << result.err;
    return result.out;
  }
  /// Runs and expects this exit code, one line on standard error that holds `words`, and nothing
  /// printed.
  void expect_refused(const std::vector<std::string>& args, int code,
                      const std::vector<std::string>& words) const {
    const Result result = run(args);
    std::string line;
    for (const std::string& arg : args) line += arg + ' ';
    EXPECT_EQ(result.code, code) << line << result.err;
    EXPECT_TRUE(result.err.starts_with("narrowgauge: ")) << line << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << line << result.err;
    for (const std::string& word : words)
      EXPECT_NE(result.err.find(word), std::string::npos) << line << result.err << word;
    EXPECT_EQ(result.out, "") << line;
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] fs::path golden(const std::string& name) const {
    return fs::path(NG_SOURCE_DIR) / "tests/golden" / name;
  }
  /// Bytes of a trained model's weights.
  [[nodiscard]] std::string weights(const std::string& run_folder) const {
    const std::string bytes = text_of(path(run_folder) / "model/model.safetensors");
    EXPECT_FALSE(bytes.empty()) << run_folder;
    return bytes;
  }

  fs::path folder_;
};

}  // namespace ng::e2e
