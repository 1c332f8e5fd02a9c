// Two kinds of failure: the outside world's (Error) and our own (InternalError, by NG_CHECK).
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace ng {

/// Something outside the program is wrong: a file, a key, a flag. what() is the one line
/// "<place>: <key>: <what is wrong>: <what would be right>", empty parts left out.
class Error : public std::runtime_error {
 public:
  struct Parts {
    std::string place = {};   ///< file, optionally ":line", or the flag
    std::string key = {};     ///< key, tensor or place inside the file
    std::string problem;      ///< what is wrong, the offending value quoted
    std::string remedy = {};  ///< what would be right
  };
  explicit Error(Parts parts);
  [[nodiscard]] const Parts& parts() const { return parts_; }

 private:
  Parts parts_;
};

/// The operating system refused: nothing is known about what the file holds.
class SystemError : public Error {
  using Error::Error;
};

/// A contract of ours is broken: a defect of the program, never the user's fault.
class InternalError : public std::logic_error {
  using std::logic_error::logic_error;
};

/// What is said where memory could not be had.
inline constexpr std::string_view kNoMemory =
    "memory: there is not enough: more of it, or less to do: model, batch, context, threads";

/// What there is to say of a failure of any kind, in one line: that of an Error, that memory is
/// short, or that the program is to blame.
[[nodiscard]] std::string failure_text(const std::exception& failure);

namespace detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& values);

template <class... Values>
std::string describe_values(std::string_view names, const Values&... values) {
  std::string text(names);
  if constexpr (sizeof...(values) > 0) {
    text += " =";
    ((text += fmt::format(" {}", values)), ...);
  }
  return text;
}
}  // namespace detail

/// Checks a contract in every build; the values are printed when it fails. Not for element loops.
#define NG_CHECK(condition, ...)                                                   \
  do {                                                                             \
    if (!(condition)) [[unlikely]]                                                 \
      ::ng::detail::check_failed(                                                  \
          #condition, __FILE__, __LINE__,                                          \
          ::ng::detail::describe_values(#__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)

}  // namespace ng
