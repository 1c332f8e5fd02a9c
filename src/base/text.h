// Text that may hold anything, made fit for a terminal or a log.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ng {

/// For messages: control characters as \n, \t or \x1b, ill-formed UTF-8 as \xff.
[[nodiscard]] std::string on_one_line(std::string_view text);

[[nodiscard]] bool is_utf8(std::string_view text);
/// Each ill-formed part as one U+FFFD, the rest as it is.
[[nodiscard]] std::string as_utf8(std::string_view text);

/// Bytes that arrive in pieces, as valid UTF-8 without control characters: what a model writes may
/// be neither. Each ill-formed part becomes one U+FFFD as in Python's errors="replace"; control
/// characters but newline and tab become U+FFFD too, carriage returns vanish.
class TextFilter {
 public:
  /// What can be printed by now: an unfinished sequence at the end is held back.
  [[nodiscard]] std::string push(std::string_view bytes);
  /// The end: an unfinished sequence will not be completed.
  [[nodiscard]] std::string finish();

 private:
  std::string held_;
};

/// A whole text through TextFilter.
[[nodiscard]] std::string readable(std::string_view bytes);

/// "a,,b" as "a", "", "b": what stands between two commas, even where it is nothing; one more than
/// there are commas.
[[nodiscard]] std::vector<std::string> split_at_commas(std::string_view list);

/// "a, b or c"
[[nodiscard]] std::string one_of(std::span<const std::string_view> names);

/// Every line behind "# ", the last ended too.
[[nodiscard]] std::string commented(std::string_view lines);
/// What commented() was given, the last line ended too; of other lines what they are.
[[nodiscard]] std::string uncommented(std::string_view lines);

/// A field of a line of CSV, quoted where it has to be. [RFC 4180]
[[nodiscard]] std::string csv_field(std::string_view text);

/// An argument as a shell reads it back.
[[nodiscard]] std::string shell_quoted(std::string_view argument);

}  // namespace ng
