// How far a command has come: one line of the terminal, refreshed; nothing elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ng::cli {

class ProgressLine {
 public:
  /// `unit`: what is counted, e.g. "windows".
  explicit ProgressLine(std::string unit) : unit_(std::move(unit)) {}
  /// Clears the line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(int64_t done, int64_t total);
  /// The same of bytes that are read, of a line whose unit is "MB".
  void show_bytes(int64_t done, int64_t total) { show(done / kMega, total / kMega); }
  /// Makes room for other output; the next show() draws it again.
  void clear();

 private:
  static constexpr int64_t kMega = 1000000;
  using Clock = std::chrono::steady_clock;
  std::string unit_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
  size_t columns_ = 0;  // of what is shown
};

}  // namespace ng::cli
