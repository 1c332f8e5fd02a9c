#include "data/npy_header.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace ng {
namespace {

constexpr size_t kHeaderBytes = 128;  // a multiple of 64, as NumPy aligns it

[[noreturn]] void refuse(const std::string& place, const std::string& problem) {
  throw Error({.place = place,
               .problem = problem,
               .remedy = "an array of 1 or 2 dimensions in C order, as numpy.save writes it"});
}

/// What stands behind `'key': ` of the header's dictionary, a Python literal.
std::string_view value_of(std::string_view dictionary, std::string_view key,
                          const std::string& place) {
  const std::string quoted = fmt::format("'{}':", key);
  const size_t at = dictionary.find(quoted);
  if (at == std::string_view::npos) refuse(place, fmt::format("its header has no '{}'", key));
  std::string_view value = dictionary.substr(at + quoted.size());
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

/// "(3,)" or "(3, 4)"
std::vector<int64_t> shape_of(std::string_view value, const std::string& place) {
  const size_t end = value.find(')');
  if (!value.starts_with('(') || end == std::string_view::npos)
    refuse(place, "its header has no shape");
  std::vector<int64_t> shape;
  std::string_view rest = value.substr(1, end - 1);
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(", "), rest.size()));
    if (rest.empty()) return shape;
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (error != std::errc() || size < 0)
      refuse(place, fmt::format("shape {}", on_one_line(value.substr(0, end + 1))));
    rest.remove_prefix(static_cast<size_t>(stop - rest.data()));
    shape.push_back(size);
  }
}

}  // namespace

NpyHeader parse_npy_header(std::string_view begin, const std::string& place) {
  constexpr size_t kVersion1 = 10, kVersion2 = 12;  // bytes before the dictionary
  if (begin.size() < kVersion2) refuse(place, "its header ends early");
  const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(begin[i])); };
  const bool is_first = byte(6) == 1;
  if (byte(6) < 1 || byte(6) > 3) refuse(place, fmt::format("version {} of .npy", byte(6)));
  const uint64_t length =
      is_first ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  NpyHeader header{.bytes = (is_first ? kVersion1 : kVersion2) + length, .dtype = "", .values = 1};
  if (header.bytes > begin.size()) refuse(place, fmt::format("a header of {} bytes", length));
  const std::string_view dictionary = begin.substr(header.bytes - length, length);
  const std::string_view dtype = value_of(dictionary, "descr", place);
  const size_t quote = dtype.find('\'', 1);
  if (!dtype.starts_with('\'') || quote == std::string_view::npos)
    refuse(place, "its values are structures");
  header.dtype = dtype.substr(1, quote - 1);
  const std::vector<int64_t> shape = shape_of(value_of(dictionary, "shape", place), place);
  if (shape.empty() || shape.size() > 2) refuse(place, fmt::format("{} dimensions", shape.size()));
  const bool by_columns = !value_of(dictionary, "fortran_order", place).starts_with("False");
  if (by_columns && shape.size() == 2) refuse(place, "its values lie by columns");
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(header.values, size, &header.values))
      refuse(place, fmt::format("shape {} x {}", shape[0], shape[1]));
  return header;
}

std::string npy_header(std::string_view dtype, int64_t values) {
  std::string text(kNpyMagic);
  text += '\1';
  text += '\0';
  text += static_cast<char>(kHeaderBytes - 10);
  text += '\0';
  text += fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}", dtype, values);
  text.resize(kHeaderBytes - 1, ' ');
  return text + '\n';
}

}  // namespace ng
