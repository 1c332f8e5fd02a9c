#include "cli/progress_line.h"

#include <unistd.h>

#include <utility>

#include "cli/output.h"

namespace ng::cli {
namespace {

constexpr std::chrono::milliseconds kRefresh{200};

}  // namespace

void ProgressLine::show(int64_t done, int64_t total) {
  const Clock::time_point now = Clock::now();
  if (::isatty(STDERR_FILENO) == 0 || now - last_ < kRefresh || done == 0) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(done) / seconds;
  const std::string line =
      fmt::format("{}/{} {}  {:.1f} a second  {} left", done, total, unit_, rate,
                  duration_text(static_cast<double>(total - done) / rate))
          .substr(0, terminal_columns() - 1);
  // Standard error, so that results can go into a file meanwhile.
  write_error(fmt::format("\r{:<{}}", line, std::exchange(columns_, line.size())));
}

void ProgressLine::clear() {
  if (columns_ > 0) write_error(fmt::format("\r{:{}}\r", "", std::exchange(columns_, 0)));
}

ProgressLine::~ProgressLine() { clear(); }

}  // namespace ng::cli
