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

/// As what a file shows rows × cols of a tensor: by the dtype of its elements, or as the bytes of
/// its rows where the format has none or rows do not fill their last byte.
struct StoredAs {
  std::string dtype;
  std::vector<int64_t> shape;
};

StoredAs stored_as(const View& view, int64_t rows, int64_t cols) {
  const std::string dtype(view.element->safetensors);
  if (tight_stride(*view.element, cols) == cols && !dtype.empty() &&
      io::find_dtype(dtype, "", "").bits == view.element->bits)
    return {dtype, {rows, cols}};
  const int64_t stride = tight_stride(*view.element, cols);
  return {"U8", {rows, static_cast<int64_t>(bytes_of(*view.element, stride))}};
}

/// Where what is registered lies in the whole tensor, and in its view.
std::vector<CutPiece> places_of(const Persistent& row) {
  const PersistentSpec& spec = row.spec;
  if (spec.is_shared) return {{.rows = spec.rows, .cols = spec.cols}};
  std::vector<CutPiece> places;
  for (CutPiece at :
       pieces_of(spec.cut, spec.whole_rows > 0 ? spec.whole_rows : spec.rows, spec.cols)) {
    const int64_t first = std::max(at.row, spec.first_row);
    const int64_t end = std::min(at.row + at.rows, spec.first_row + spec.rows);
    if (first >= end) continue;
    at.whole_row += first - at.row;
    at.row = first - spec.first_row;
    at.rows = end - first;
    places.push_back(at);
  }
  return places;
}

/// Bytes of columns that begin with `col`, from the beginning of a row.
size_t offset_in_row(const View& view, int64_t col) {
  NG_CHECK(col * view.element->bits % 8 == 0, view.element->name, col);
  return bytes_of(*view.element, col);
}

/// Of a place in the view: its rows follow one another there.
std::byte* begin_of(const View& view, const CutPiece& at) {
  NG_CHECK(at.cols == view.cols || at.rows == 1, at.cols, view.cols, at.rows);
  return view.data + static_cast<size_t>(at.row) * row_bytes(view) + offset_in_row(view, at.col);
}
size_t row_bytes(const View& view, const CutPiece& at) {
  return bytes_of(*view.element, tight_stride(*view.element, at.cols));
}

constexpr size_t kPieceBytes = size_t{1} << 22;

/// body(offset, bytes) for the pieces of so many bytes, a buffer of the host for each.
template <class Body>
void for_pieces(size_t bytes, const Body& body) {
  std::vector<std::byte> buffer(std::min(kPieceBytes, bytes));
  for (size_t at = 0; at < bytes; at += buffer.size())
    body(at, std::span(buffer).first(std::min(buffer.size(), bytes - at)));
}

std::string name_in_file(const PersistentSpec& spec, const CutPiece& at) {
  if (spec.is_shared || (spec.whole_rows == 0 && !spec.cut)) return spec.name;
  const std::string rows = fmt::format("{}:{}", at.whole_row, at.whole_row + at.rows);
  if (spec.cut.axis != Cut::Axis::cols) return fmt::format("{}[{}]", spec.name, rows);
  return fmt::format("{}[{},{}:{}]", spec.name, rows, at.whole_col, at.whole_col + at.cols);
}

/// "first:last" from the beginning of `text`, which it takes off; false where it does not begin so.
bool take_range(std::string_view& text, int64_t& first, int64_t& last) {
  const auto number = [&](int64_t& value) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
  };
  if (!number(first) || !text.starts_with(':')) return false;
  text.remove_prefix(1);
  return number(last) && first <= last;
}

/// The ranges of "name[first:last]" and "name[first:last,first:last]"; any other text is a whole
/// tensor's name.
struct NameInFile {
  std::string name;
  int64_t first_row = 0, first_col = 0, cols = 0;
};
NameInFile parse_name(const std::string& text) {
  const size_t open = text.rfind('[');
  if (open == std::string::npos || !text.ends_with(']')) return {.name = text};
  std::string_view ranges(text);
  ranges = ranges.substr(open + 1, text.size() - open - 2);
  NameInFile parsed{.name = text.substr(0, open)};
  int64_t last = 0;
  if (!take_range(ranges, parsed.first_row, last)) return {.name = text};
  if (ranges.empty()) return parsed;
  if (!ranges.starts_with(',')) return {.name = text};
  ranges.remove_prefix(1);
  if (!take_range(ranges, parsed.first_col, last) || !ranges.empty()) return {.name = text};
  parsed.cols = last - parsed.first_col;
  return parsed;
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

std::vector<const Persistent*> rows_to_write(const Run& run, bool own) {
  std::vector<const Persistent*> written;
  for (const Persistent& row : run.persistents()) {
    const bool is_of_others = row.spec.is_shared && row.spec.first_row > 0;  // the first part's
    if (!row.spec.is_saved || is_of_others) continue;
    const bool is_part = !row.spec.is_own && row.spec.cut;
    const bool is_mine = row.spec.is_own || (is_part && run.comm().rank() == 0);
    if (own ? is_mine : !row.spec.is_own && !is_part) written.push_back(&row);
  }
  return written;
}

void write_state(const Run& run, const std::vector<const Persistent*>& rows,
                 const std::string& path) {
  std::vector<io::SafetensorsTensor> tensors;
  for (const Persistent* row : rows)
    for (const CutPiece& at : places_of(*row)) {
      const StoredAs as = stored_as(row->view, at.rows, at.cols);
      tensors.push_back({name_in_file(row->spec, at), as.dtype, as.shape, nullptr});
    }
  io::SafetensorsWriter writer(path, tensors);
  for (const Persistent* row : rows)
    for (const CutPiece& at : places_of(*row)) {
      const std::byte* const from = begin_of(row->view, at);
      for_pieces(static_cast<size_t>(at.rows) * row_bytes(row->view, at),
                 [&](size_t offset, std::span<std::byte> piece) {
                   run.backend().download(piece.data(), from + offset, piece.size());
                   writer.write(piece);
                 });
    }
  writer.commit();
}

StateFiles::StateFiles(const std::string& folder) {
  files_.emplace_back(join_path(folder, kStateFile));
  for (const std::string& name : list_folder(folder))
    if (name.starts_with(kStem) && name.ends_with(kEnding))
      files_.emplace_back(join_path(folder, name));
  for (const io::Safetensors& file : files_)
    for (const io::SafetensorsEntry& entry : file.entries()) {
      const NameInFile in_file = parse_name(entry.name);
      parts_[in_file.name].push_back({.first_row = in_file.first_row,
                                      .rows = entry.shape.empty() ? 1 : entry.shape.front(),
                                      .first_col = in_file.first_col,
                                      .cols = in_file.cols,
                                      .entry = &entry});
    }
}

bool StateFiles::has_as_stored(const Persistent& row) const {
  const auto parts = parts_.find(row.spec.name);
  if (parts == parts_.end()) return false;
  const StoredAs as = stored_as(row.view, row.spec.rows, row.spec.cols);
  const io::SafetensorsEntry& entry = *parts->second.front().entry;
  return entry.dtype == as.dtype && entry.shape == as.shape;
}

void StateFiles::require_as_stored(const Persistent& row, const Part& part, int64_t cols) const {
  const PersistentSpec& spec = row.spec;
  const io::SafetensorsEntry& entry = *part.entry;
  const bool is_whole = spec.whole_rows == 0 && !spec.cut && parts_.at(spec.name).size() == 1;
  const StoredAs as = stored_as(row.view, is_whole ? spec.rows : part.rows, cols);
  if (entry.dtype == as.dtype && entry.shape == as.shape) return;
  throw Error({.place = entry.file,
               .key = entry.name,
               .problem = fmt::format("{} [{}]", entry.dtype, fmt::join(entry.shape, ", ")),
               .remedy = fmt::format("{} [{}]", as.dtype, fmt::join(as.shape, ", "))});
}

void StateFiles::read_into(Run& run, const Persistent& row) const {
  if (!parts_.contains(row.spec.name)) (void)files_.front().at(row.spec.name);  // throws
  for (const CutPiece& place : places_of(row)) read_place(run, row, place);
}

void StateFiles::read_place(Run& run, const Persistent& row, const CutPiece& place) const {
  const int64_t all_cols = row.spec.cut.whole_cols(row.spec.cols);
  const int64_t end_row = place.whole_row + place.rows, end_col = place.whole_col + place.cols;
  std::byte* const begin = begin_of(row.view, place);
  std::vector<int64_t> found(static_cast<size_t>(place.rows));  // columns, by row
  for (const Part& part : parts_.at(row.spec.name)) {
    const int64_t part_cols = part.cols > 0 ? part.cols : all_cols;
    const int64_t first_row = std::max(place.whole_row, part.first_row);
    const int64_t last_row = std::min(end_row, part.first_row + part.rows);
    const int64_t first_col = std::max(place.whole_col, part.first_col);
    const int64_t last_col = std::min(end_col, part.first_col + part_cols);
    if (first_row >= last_row || first_col >= last_col) continue;
    require_as_stored(row, part, part_cols);
    const CutPiece in_part{.rows = part.rows, .cols = part_cols};
    const size_t from_row = row_bytes(row.view, in_part), to_row = row_bytes(row.view, place);
    const bool is_wide = part_cols == place.cols && part.first_col == place.whole_col;
    const int64_t together = is_wide ? last_row - first_row : 1;  // rows that are read at once
    const size_t bytes = is_wide ? static_cast<size_t>(together) * from_row
                                 : bytes_of(*row.view.element, last_col - first_col);
    for (int64_t r = first_row; r < last_row; r += together) {
      const size_t from = static_cast<size_t>(r - part.first_row) * from_row +
                          offset_in_row(row.view, first_col - part.first_col);
      std::byte* const to = begin + static_cast<size_t>(r - place.whole_row) * to_row +
                            offset_in_row(row.view, first_col - place.whole_col);
      for_pieces(bytes, [&](size_t at, std::span<std::byte> piece) {
        part.entry->read(from + at, piece);
        run.upload(to + at, std::span<const std::byte>(piece));
      });
    }
    for (int64_t r = first_row; r < last_row; ++r)
      found[static_cast<size_t>(r - place.whole_row)] += last_col - first_col;
  }
  const auto missing =
      std::find_if(found.begin(), found.end(), [&](int64_t cols) { return cols < place.cols; });
  if (missing == found.end()) return;
  throw Error({.place = files_.front().path(),
               .key = row.spec.name,
               .problem = fmt::format("rows {} to {} are in none of the state files",
                                      place.whole_row + (missing - found.begin()), end_row),
               .remedy = "the checkpoint as it was written"});
}

}  // namespace ng
