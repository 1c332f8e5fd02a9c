// Standard output: every byte of it is checked, and it knows whether it is a terminal.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/json_number.h"
#include "base/units.h"

namespace ng::cli {

/// Writes to standard output. Throws Error where that fails.
void write_output(std::string_view text);
/// Everything written so far is on its way.
void flush_output();
/// At the end of the program: throws Error where anything could not be written.
void finish_output();

/// Writes to standard error, as far as it takes it: closed, full or without a reader, it ends
/// nothing.
void write_error(std::string_view text) noexcept;

/// A sentence on standard error by write_error: "narrowgauge: note: ...". Of ranks, 0 writes it.
void note(const std::string& sentence);

/// Standard output of work that is worth more than what is said about it: what cannot be written
/// is remembered until the end. Where nobody reads it, SIGPIPE must be ignored.
class SteadyOutput {
 public:
  void put(const std::string& text);
  /// Throws Error, which says `what_is_whole` nevertheless, where anything could not be written.
  void require_written(const std::string& what_is_whole) const;

 private:
  std::string failure_;
};

template <class... Values>
void print(fmt::format_string<Values...> format, Values&&... values) {
  write_output(fmt::format(format, std::forward<Values>(values)...));
}

/// One JSON document and a newline.
void print_json(const Json& json);
/// One line of ASCII: what reads lines may take U+2028 and its like, which texts hold, for ends of
/// them. What is no UTF-8 becomes U+FFFD.
void print_json_line(const OrderedJson& json);
/// One document, or what says the same to people.
void print_either(bool json, const Json& document, std::string_view text);

/// Throws Error: a flag or a file, what is wrong with it, and what would be right.
[[noreturn]] void refuse(const std::string& place, const std::string& problem,
                         const std::string& remedy);

/// Somebody's: mpirun gives rank 0 one wherever its output goes.
[[nodiscard]] bool output_is_terminal();
/// Columns of the terminal; 80 where it does not say.
[[nodiscard]] size_t terminal_columns();

/// A paragraph in lines as long as the terminal's, of at most 100 columns. It begins behind so many
/// columns, and so do its other lines.
[[nodiscard]] std::string in_lines(std::string_view paragraph, size_t indent = 0);

/// Rows of text in columns: the first left-aligned, the others right-aligned unless named.
class Table {
 public:
  explicit Table(std::vector<std::string> heading, size_t left_columns = 1);
  void row(std::vector<std::string> cells);
  [[nodiscard]] std::string text() const;
  /// The first column as code.
  [[nodiscard]] std::string markdown() const;

 private:
  std::vector<std::vector<std::string>> rows_;  ///< the heading, then the others
  size_t left_columns_;
};

/// A column of a table of JSON objects: what each has under `key`, numbers times `unit`.
struct Column {
  const char* heading;
  const char* key;
  const char* format = "{}";  ///< of numbers
  double unit = 1;
  const char* null = "";                       ///< for what is null or not there
  std::string (*text)(const Json&) = nullptr;  ///< instead: of what is there
};
[[nodiscard]] std::string table_of(const Json& rows, std::span<const Column> columns,
                                   size_t left_columns = 1);

}  // namespace ng::cli
