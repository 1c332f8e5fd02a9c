#include "train/state_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "base/error.h"
#include "base/files.h"
#include "io/safetensors_dtype.h"

namespace ng {
namespace {

constexpr std::string_view kStem = "state-", kEnding = ".safetensors";

/// Rows of registered tensors follow one another, each from a byte on.
size_t row_bytes(const View& view) { return bytes_of(*view.element, view.stride); }

/// As what a file shows a tensor: by the dtype of its elements, or as the bytes of its rows where
/// the format has none or rows do not fill their last byte.
struct StoredAs {
  std::string dtype;
  std::vector<int64_t> shape;
};

StoredAs stored_as(const View& view) {
  const std::string dtype(view.element->safetensors);
  if (view.stride == view.cols && !dtype.empty() &&
      io::find_dtype(dtype, "", "").bits == view.element->bits)
    return {dtype, {view.rows, view.cols}};
  return {"U8", {view.rows, static_cast<int64_t>(row_bytes(view))}};
}

constexpr size_t kPieceBytes = size_t{1} << 22;

/// body(offset, bytes) for the pieces of so many bytes, a buffer of the host for each.
template <class Body>
void for_pieces(size_t bytes, const Body& body) {
  std::vector<std::byte> buffer(std::min(kPieceBytes, bytes));
  for (size_t at = 0; at < bytes; at += buffer.size())
    body(at, std::span(buffer).first(std::min(buffer.size(), bytes - at)));
}

size_t size_of(const View& view) { return static_cast<size_t>(view.rows) * row_bytes(view); }

std::string name_in_file(const PersistentSpec& spec) {
  if (spec.whole_rows == 0) return spec.name;
  return fmt::format("{}[{}:{}]", spec.name, spec.first_row, spec.first_row + spec.rows);
}

/// "name[first:last]" -> name, first; any other text is a whole tensor's name.
std::pair<std::string, int64_t> name_and_first_row(const std::string& text) {
  const size_t open = text.rfind('[');
  int64_t first = 0;
  if (open == std::string::npos || !text.ends_with(']')) return {text, 0};
  const auto [end, failed] =
      std::from_chars(text.data() + open + 1, text.data() + text.size(), first);
  if (failed != std::errc() || *end != ':') return {text, 0};
  return {text.substr(0, open), first};
}

}  // namespace

std::string rank_state_file(int rank, int ranks) {
  return fmt::format("{}{}-of-{}{}", kStem, rank + 1, ranks, kEnding);
}

std::vector<const Persistent*> saved_rows(const Run& run, bool own) {
  std::vector<const Persistent*> saved;
  for (const Persistent& row : run.persistents())
    if (row.spec.is_saved && row.spec.is_own == own) saved.push_back(&row);
  return saved;
}

void write_state(const Run& run, const std::vector<const Persistent*>& rows,
                 const std::string& path) {
  std::vector<io::SafetensorsTensor> tensors;
  for (const Persistent* row : rows) {
    const StoredAs as = stored_as(row->view);
    tensors.push_back({name_in_file(row->spec), as.dtype, as.shape, nullptr});
  }
  io::SafetensorsWriter writer(path, tensors);
  for (const Persistent* row : rows)
    for_pieces(size_of(row->view), [&](size_t at, std::span<std::byte> piece) {
      run.backend().download(piece.data(), row->view.data + at, piece.size());
      writer.write(piece);
    });
  writer.commit();
}

StateFiles::StateFiles(const std::string& folder) {
  files_.emplace_back(join_path(folder, kStateFile));
  for (const std::string& name : list_folder(folder))
    if (name.starts_with(kStem) && name.ends_with(kEnding))
      files_.emplace_back(join_path(folder, name));
  for (const io::Safetensors& file : files_)
    for (const io::SafetensorsEntry& entry : file.entries()) {
      const auto [name, first] = name_and_first_row(entry.name);
      parts_[name].push_back({first, entry.shape.empty() ? 1 : entry.shape.front(), &entry});
    }
  for (auto& [name, parts] : parts_)
    std::sort(parts.begin(), parts.end(),
              [](const Part& a, const Part& b) { return a.first_row < b.first_row; });
}

void StateFiles::read_into(Run& run, const Persistent& row) const {
  const std::string& name = row.spec.name;
  const auto found = parts_.find(name);
  if (found == parts_.end()) (void)files_.front().at(name);  // throws
  const StoredAs as = stored_as(row.view);
  int64_t next = row.spec.first_row;
  const int64_t last = next + row.spec.rows;
  for (const Part& part : found->second) {
    const int64_t end = std::min(part.first_row + part.rows, last);
    if (next >= end || part.first_row > next) continue;
    const io::SafetensorsEntry& entry = *part.entry;
    const bool is_whole = row.spec.whole_rows == 0 && found->second.size() == 1;
    if (entry.dtype != as.dtype || entry.shape.size() != 2 || entry.shape[1] != as.shape[1] ||
        (is_whole && entry.shape != as.shape))
      throw Error({.place = entry.file,
                   .key = entry.name,
                   .problem = fmt::format("{} [{}]", entry.dtype, fmt::join(entry.shape, ", ")),
                   .remedy = fmt::format("{} [{}]", as.dtype, fmt::join(as.shape, ", "))});
    const size_t bytes = row_bytes(row.view);
    std::byte* const to = row.view.data + static_cast<size_t>(next - row.spec.first_row) * bytes;
    const size_t from = static_cast<size_t>(next - part.first_row) * bytes;
    for_pieces(static_cast<size_t>(end - next) * bytes, [&](size_t at, std::span<std::byte> piece) {
      entry.read(from + at, piece);
      run.upload(to + at, std::span<const std::byte>(piece));
    });
    next = end;
  }
  if (next == last) return;
  throw Error({.place = files_.front().path(),
               .key = name,
               .problem = fmt::format("rows {} to {} are in none of the state files", next, last),
               .remedy = "the checkpoint as it was written"});
}

}  // namespace ng
