#include "base/temporary_names.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>

#include "base/error.h"

namespace ng {
namespace {

/// A path whose last name leaves room for what makes a temporary one of it.
std::string with_room(const std::string& path) {
  constexpr size_t kRoom = 32;  // for kTemporaryMark, a process and a number
  const size_t name = path.rfind('/') + 1;
  return path.substr(0, name + NAME_MAX - kRoom);
}

std::string tail_of(pid_t process, int n) { return fmt::format("{}-{}", process, n); }

}  // namespace

std::string temporary_name(const std::string& path, int n) {
  return fmt::format("{}{}{}", with_room(path), kTemporaryMark, tail_of(::getpid(), n));
}

std::string name_with_room(const std::string& path) {
  const std::string cut = with_room(path);
  return cut.substr(cut.rfind('/') + 1);
}

std::optional<TemporaryName> parse_temporary_name(std::string_view name) {
  const size_t mark = name.rfind(kTemporaryMark);
  if (mark == std::string_view::npos || mark == 0) return {};
  const std::string_view tail = name.substr(mark + kTemporaryMark.size());
  const char* const end = tail.data() + tail.size();
  TemporaryName made{.of = name.substr(0, mark)};
  int n = 0;
  const auto [dash, no_process] = std::from_chars(tail.data(), end, made.maker);
  if (no_process != std::errc() || dash == end) return {};
  const auto [stop, no_number] = std::from_chars(dash + 1, end, n);
  const bool is_made = no_number == std::errc() && stop == end && made.maker > 0 && n >= 0 &&
                       tail == tail_of(made.maker, n);  // "7-03" is a date, or whatever
  return is_made ? std::optional(made) : std::nullopt;
}

bool is_running(pid_t process) { return ::kill(process, 0) == 0 || errno != ESRCH; }

}  // namespace ng
