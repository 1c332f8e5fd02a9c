#include "cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "comm/launch.h"

namespace ng::cli {
namespace {

[[noreturn]] void cannot_write() {
  refuse("standard output", std::string("cannot be written: ") + std::strerror(errno), "");
}

// Characters, not bytes, of UTF-8.
size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

}  // namespace

void write_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) cannot_write();
}

void flush_output() {
  if (std::fflush(stdout) != 0) cannot_write();
}

void finish_output() { flush_output(); }

void write_error(std::string_view text) noexcept {
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  ::sigaction(SIGPIPE, &before, nullptr);
}

void note(const std::string& sentence) {
  if (launch().rank != 0) return;
  write_error(fmt::format("narrowgauge: note: {}\n", on_one_line(sentence)));
}

void SteadyOutput::put(const std::string& text) {
  if (!failure_.empty()) return;
  try {
    write_output(text);
    flush_output();
  } catch (const Error& error) {
    failure_ = error.parts().problem;
  }
}

void SteadyOutput::require_written(const std::string& what_is_whole) const {
  if (failure_.empty()) return;
  refuse("standard output", failure_, what_is_whole);
}

void print_json(const Json& json) { print("{}\n", json_text(json, 2)); }

void print_json_line(const OrderedJson& json) {
  constexpr int kOneLine = -1;
  constexpr bool kAscii = true;
  write_output(json.dump(kOneLine, ' ', kAscii, OrderedJson::error_handler_t::replace) + "\n");
}

void print_either(bool json, const Json& document, std::string_view text) {
  if (json)
    print_json(document);
  else
    write_output(text);
}

void refuse(const std::string& place, const std::string& problem, const std::string& remedy) {
  throw Error({.place = place, .key = "", .problem = problem, .remedy = remedy});
}

bool output_is_terminal() { return ::isatty(STDOUT_FILENO) == 1 && launch().starter != kMpirun; }

size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string in_lines(std::string_view paragraph, size_t indent) {
  constexpr size_t kMost = 100;
  const size_t columns =
      (output_is_terminal() ? std::max(std::min(terminal_columns(), kMost), 2 * indent) : kMost) -
      indent;
  std::string text;
  size_t at = 0;  // columns of the line so far
  while (!paragraph.empty()) {
    const std::string_view word = paragraph.substr(0, paragraph.find(' '));
    paragraph.remove_prefix(std::min(word.size() + 1, paragraph.size()));
    const size_t width = columns_of(word);
    const bool fits = at + 1 + width <= columns;
    if (at > 0) text += fits ? " " : "\n" + std::string(indent, ' ');
    at = at > 0 && fits ? at + 1 + width : width;
    text += word;
  }
  return text + '\n';
}

Table::Table(std::vector<std::string> heading, size_t left_columns) : left_columns_(left_columns) {
  rows_.push_back(std::move(heading));
}

void Table::row(std::vector<std::string> cells) {
  NG_CHECK(cells.size() == rows_.front().size(), cells.size(), rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  std::string text;
  for (const auto& row : rows_) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - columns_of(row[i]), ' ');
      line += ' ' + (i < left_columns_ ? row[i] + gap : gap + row[i]) + ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string Table::markdown() const {
  std::string text;
  for (const auto& row : rows_) {
    const bool is_heading = &row == &rows_.front();
    text += '|';
    for (const std::string& cell : row) {
      const bool is_code = &cell == &row.front() && !is_heading;
      text += is_code ? " `" + cell + "` |" : ' ' + cell + (cell.empty() ? "|" : " |");
    }
    text += '\n';
    if (!is_heading) continue;
    text += '|';
    for (size_t i = 0; i < row.size(); ++i) text += "---|";
    text += '\n';
  }
  return text;
}

std::string table_of(const Json& rows, std::span<const Column> columns, size_t left_columns) {
  std::vector<std::string> heading;
  for (const Column& column : columns) heading.emplace_back(column.heading);
  Table table(std::move(heading), left_columns);
  for (const Json& row : rows) {
    std::vector<std::string> cells;
    for (const auto& [title, key, format, unit, null, text] : columns) {
      const auto found = row.find(key);
      cells.push_back(found == row.end() || found->is_null() ? null
                      : text != nullptr                      ? text(*found)
                      : found->is_string()
                          ? found->get<std::string>()
                          : fmt::format(fmt::runtime(format), found->get<double>() * unit));
    }
    table.row(std::move(cells));
  }
  return table.text();
}

}  // namespace ng::cli
