#include "tools/cast_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/output_file.h"
#include "format/operand_table.h"
#include "format/packing.h"
#include "io/tensor_files.h"
#include "numbers/by_definition.h"
#include "numbers/on_backend.h"
#include "tools/tensor_matrix.h"

namespace ng {
namespace {

constexpr size_t kCodesOfBytes = 8;  // of any width they fill whole bytes

/// One tensor of the input and where its parts stand in the list of outputs.
struct Item {
  const io::SafetensorsEntry* entry;
  uint32_t place;  ///< in the file: the random key counts all tensors, whichever are wanted
  TensorMatrix matrix;
  size_t codes = 0, scale = 0, zero = 0, tensor_scale = 0, values = 0;
};

bool is_packed(const CastSettings& settings) {
  return settings.packed && settings.cast.element->bits % 8 != 0;
}

/// Codes of a bit string.
int64_t string_length(const io::SafetensorsEntry& entry) {
  return entry.shape.empty() ? 1 : entry.shape.back();
}

std::vector<int64_t> packed_shape(const io::SafetensorsEntry& entry, int bits) {
  std::vector<int64_t> shape = entry.shape;
  const size_t bytes = packed_bytes(string_length(entry), bits);
  if (shape.empty()) shape.push_back(1);
  shape.back() = static_cast<int64_t>(bytes);
  if (shape.back() >= 0) return shape;
  throw Error({.place = entry.file,
               .key = entry.name,
               .problem = fmt::format("--packed with {} codes in a row", string_length(entry)),
               .remedy = "no --packed"});
}

/// Rows without values have a scale each, however many they are.
void refuse_boundless_scales(const Item& item) {
  throw Error({.place = item.entry->file,
               .key = item.entry->name,
               .problem = "has no values, and rows without number that have a scale each",
               .remedy = "--tensor with a pattern that it does not match, or blocks of values"});
}

void refuse_packing(const Item& item) {
  throw Error({.place = item.entry->file,
               .key = item.entry->name,
               .problem = fmt::format("--packed along dimension {} of {}", item.matrix.axis(),
                                      item.entry->shape.size()),
               .remedy = "--axis 0 or -1, or no --packed"});
}

/// What a tensor becomes, in the order in which it stands in the file.
void add_outputs(const CastSettings& settings, Item& item,
                 std::vector<io::SafetensorsTensor>& outputs) {
  const Operand& cast = settings.cast;
  const io::SafetensorsEntry& entry = *item.entry;
  const auto add = [&](const char* part, const char* dtype, std::vector<int64_t> shape) {
    outputs.push_back({entry.name + part, dtype, std::move(shape), nullptr});
    return outputs.size() - 1;
  };
  if (is_packed(settings) && item.matrix.is_gathered()) refuse_packing(item);
  item.codes = is_packed(settings)
                   ? add(".codes", "U8", packed_shape(entry, cast.element->bits))
                   : add(".codes", cast.element->bits <= 8 ? "U8" : "U16", entry.shape);
  const std::vector<int64_t> scales = item.matrix.scale_shape(cast);
  if (item.matrix.is_boundless() && cast.block.kind == Block::Kind::row && !cast.is_unscaled() &&
      std::find(scales.begin(), scales.end(), 0) == scales.end())
    refuse_boundless_scales(item);
  if (!cast.is_unscaled()) item.scale = add(".scale", has_scale_codes(cast) ? "U8" : "F32", scales);
  if (is_affine(cast)) item.zero = add(".zero", "U8", scales);
  if (cast.scale == ScaleKind::e4m3) item.tensor_scale = add(".tensor_scale", "F32", {1});
  item.values = add(".values", "F32", entry.shape);
}

/// Writes the panels of one tensor.
class TensorWriter {
 public:
  TensorWriter(io::SafetensorsWriter& writer, const CastSettings& settings, const Item& item)
      : writer_(writer), settings_(settings), item_(item) {}

  void write(const Panel& panel, const NarrowMatrix& narrow, const std::vector<float>& values) {
    const int64_t rows = item_.matrix.rows(), cols = item_.matrix.cols();
    if (is_packed(settings_))
      write_packed(panel, narrow);
    else if (settings_.cast.element->bits <= 8)
      put(item_.codes, panel, rows, cols, bytes_of(narrow.codes));
    else
      put(item_.codes, panel, rows, cols, narrow.codes);
    put(item_.values, panel, rows, cols, values);
    if (narrow.cast.scale == ScaleKind::e4m3 && panel.is_first())
      writer_.write_at(item_.tensor_scale, 0, std::as_bytes(std::span(&narrow.tensor_scale, 1)));
    if (narrow.grid.size() > 0) write_scales(panel, narrow);
  }

 private:
  static std::vector<uint8_t> bytes_of(const std::vector<uint16_t>& codes) {
    return {codes.begin(), codes.end()};
  }

  /// `values`: of `part` of what has `rows` × `cols` of them.
  template <class Value>
  void put(size_t tensor, const Panel& part, int64_t rows, int64_t cols,
           const std::vector<Value>& values) {
    std::vector<Value> together;
    item_.matrix.for_pieces(part, rows, cols, [&](const TensorMatrix::Piece& piece) {
      const Value* from = values.data() + piece.first;
      if (piece.width > 1) {
        together.resize(static_cast<size_t>(piece.size()));
        gather(piece, values.data(), together.data());
        from = together.data();
      }
      writer_.write_at(tensor, static_cast<uint64_t>(piece.place) * sizeof(Value),
                       std::as_bytes(std::span(from, static_cast<size_t>(piece.size()))));
    });
  }

  /// Bit strings of the last dimension, of which a row of the matrix has several. The codes of a
  /// byte that ends beyond a part of a row wait for the next part.
  void write_packed(const Panel& panel, const NarrowMatrix& narrow) {
    if (narrow.codes.empty()) return;
    const int64_t length = string_length(*item_.entry), cols = item_.matrix.cols();
    const int bits = narrow.cast.element->bits;
    const bool whole = panel.cols == cols;
    const auto runs = static_cast<size_t>(whole ? 1 : panel.rows);
    const size_t count = narrow.codes.size() / runs;
    if (panel.col == 0) waiting_.assign(runs, {});
    for (size_t r = 0; r < runs; ++r) {
      std::vector<uint16_t>& codes = waiting_[r];
      const int64_t first = panel.col - static_cast<int64_t>(codes.size());
      const int64_t row = panel.row + static_cast<int64_t>(r), string = first / length;
      const auto bytes =
          static_cast<size_t>(row * (cols / length) + string) * packed_bytes(length, bits) +
          packed_bytes(first % length, bits);
      const auto from = narrow.codes.begin() + static_cast<std::ptrdiff_t>(r * count);
      codes.insert(codes.end(), from, from + static_cast<std::ptrdiff_t>(count));
      const size_t taken = pack(codes, first % length, bits);
      writer_.write_at(item_.codes, bytes, std::as_bytes(std::span(packed_)));
      codes.erase(codes.begin(), codes.begin() + static_cast<std::ptrdiff_t>(taken));
    }
  }

  /// The codes, from `first` of a bit string on, as whole bytes; how many they hold.
  size_t pack(std::span<const uint16_t> codes, int64_t first, int bits) {
    packed_.clear();
    size_t taken = 0;
    while (taken < codes.size()) {
      const auto left = static_cast<size_t>(string_length(*item_.entry) - first);
      const bool ends = left <= codes.size() - taken;
      const size_t count = ends ? left : (codes.size() - taken) / kCodesOfBytes * kCodesOfBytes;
      const size_t at = packed_.size();
      packed_.resize(at + packed_bytes(static_cast<int64_t>(count), bits));
      pack_codes(codes.subspan(taken, count), bits, std::span(packed_).subspan(at));
      taken += count;
      if (!ends) break;
      first = 0;
    }
    return taken;
  }

  void write_scales(const Panel& panel, const NarrowMatrix& narrow) {
    const ScaleGrid whole =
        scale_grid(narrow.cast, narrow.along, item_.matrix.rows(), item_.matrix.cols());
    // Scales that span panels are in each of them.
    if (panel.row % whole.block_rows != 0 || panel.col % whole.block_cols != 0) return;
    const Panel part = {panel.row / whole.block_rows, narrow.grid.rows,
                        panel.col / whole.block_cols, narrow.grid.cols};
    if (has_scale_codes(narrow.cast))
      put(item_.scale, part, whole.rows, whole.cols, narrow.scale_codes);
    else
      put(item_.scale, part, whole.rows, whole.cols, narrow.scales);
    if (is_affine(narrow.cast)) put(item_.zero, part, whole.rows, whole.cols, narrow.zeros);
  }

  io::SafetensorsWriter& writer_;
  const CastSettings& settings_;
  const Item& item_;
  std::vector<std::vector<uint16_t>> waiting_;  ///< of each row of the panel
  std::vector<uint8_t> packed_;
};

/// A tensor from its file into its place in the other, a panel at a time.
class TensorCast {
 public:
  TensorCast(cpu::Workspace& workspace, const CastSettings& settings, const Item& item)
      : threads_(settings.threads),
        backend_(settings.backend),
        item_(item),
        job_(job_of(settings, item)),
        reader_(*item.entry, io::FromF64::odd),
        encoder_(workspace, job_) {}

  CastResult run(io::SafetensorsWriter& writer, const CastSettings& settings,
                 const std::function<void(double share)>& progress) {
    const TensorMatrix& matrix = item_.matrix;
    // No backend has the casts that the definition makes here.
    const bool is_whole = backend_ != nullptr && !is_by_definition(job_.cast) &&
                          matrix.rows() > 0 && matrix.cols() > 0;
    const std::vector<Panel> panels =
        is_whole ? std::vector<Panel>{{0, matrix.rows(), 0, matrix.cols()}} : encoder_.panels();
    const bool needs_range = !is_whole && encoder_.needs_range();
    const double passes = needs_range ? 2 : 1;
    double done = 0;
    const auto advance = [&](const Panel& panel) {
      done += static_cast<double>(panel.rows) * static_cast<double>(panel.cols);
      const int64_t values = matrix.rows() * matrix.cols();
      progress(values == 0 ? 1 : done / passes / static_cast<double>(values));
    };
    if (needs_range)
      for (const Panel& panel : panels) {
        encoder_.note(panel, read(panel));
        advance(panel);
      }
    TensorWriter out(writer, settings, item_);
    CastResult result{item_.entry->name, item_.entry->dtype, item_.entry->shape, {}, {}};
    ErrorSums errors;
    for (const Panel& panel : panels) {
      const Rows<const float> values = read(panel);
      if (is_whole)
        narrow_ = quantize_on(*backend_, values, job_.cast, job_.options);
      else
        encoder_.encode(panel, values, narrow_);
      decoded_.resize(narrow_.codes.size());
      const Rows<float> decoded{decoded_.data(), panel.rows, panel.cols, panel.cols};
      dequantize(narrow_, decoded, threads_);
      errors.add(error_sums(values, decoded, threads_));
      result.counts += narrow_.counts;
      out.write(panel, narrow_, decoded_);
      advance(panel);
    }
    errors.add_saturated(result.counts.saturated);
    result.counts.values = static_cast<uint64_t>(item_.entry->elements());
    result.errors = errors.metrics();
    return result;
  }

 private:
  static EncodeJob job_of(const CastSettings& settings, const Item& item) {
    const TensorMatrix& matrix = item.matrix;
    EncodeJob job{
        .cast = settings.cast,
        .options = {.along = matrix.along(), .key = {}, .rows_together = matrix.rows_together()},
        .rows = matrix.rows(),
        .cols = matrix.cols()};
    job.options.key = {
        .seed = settings.seed, .tensor = item.place, .step = 0, .purpose = Purpose::fprop_input};
    return job;
  }
  Rows<const float> read(const Panel& panel) {
    values_.resize(static_cast<size_t>(panel.rows * panel.cols));
    item_.matrix.read(reader_, panel, values_);
    return {values_.data(), panel.rows, panel.cols, panel.cols};
  }

  Threads threads_;
  Backend* backend_;
  const Item& item_;
  EncodeJob job_;
  io::FloatReader reader_;
  NarrowEncoder encoder_;
  NarrowMatrix narrow_;
  std::vector<float> values_, decoded_;
};

std::vector<Item> items_of(const io::TensorFile& file, const CastSettings& settings,
                           CastReport& report) {
  std::vector<Item> items;
  for (size_t i = 0; i < file.entries().size(); ++i) {
    const io::SafetensorsEntry& entry = file.entries()[i];
    if (io::is_wanted(entry, settings.tensors))
      items.push_back(
          {.entry = &entry, .place = static_cast<uint32_t>(i), .matrix = {entry, settings.axis}});
  }
  if (items.empty()) io::refuse_without_floats(file, settings.tensors);
  report.skipped = io::skipped_tensors(file, settings.tensors);
  return items;
}

/// How the output was made; bit strings do not say how many codes they hold.
std::map<std::string, std::string> metadata_of(const CastSettings& settings,
                                               const std::vector<Item>& items) {
  const Operand& cast = settings.cast;
  const Operand defaults = operand_of("fp32");
  const bool stochastic = cast.rounding == Rounding::stochastic;
  std::map<std::string, std::string> metadata = {
      {"format", settings.format},
      {"element", std::string(cast.element->name)},
      {"scale", std::string(name_of(cast.scale))},
      {"tensor_scale", std::string(name_of(cast.tensor_scale))},
      {"block", text_of(cast.block)},
      {"axis", std::to_string(settings.axis)},
      {"rounding", stochastic ? fmt::format("stochastic {}", cast.sr_bits) : "nearest"},
      {"overflow", cast.overflow == Overflow::special ? "special" : "saturate"},
      {"seed", std::to_string(settings.seed)},
      {"packed", is_packed(settings) ? "true" : "false"}};
  if (!scale_rules(cast.scale).empty()) metadata["scale_rule"] = name_of(cast.scale_rule);
  for (const OperandKey* key : differences(cast, defaults))
    if (key->flag.place > 0 && key->path != "sr_bits")
      metadata.emplace(key->path, word_of(*key, cast));
  if (!is_packed(settings)) return metadata;
  for (const Item& item : items)
    metadata[item.entry->name + ".shape"] = json_text(item.entry->shape);
  return metadata;
}

}  // namespace

uint64_t bytes_to_cast(const std::string& in, const CastSettings& settings) {
  const io::TensorFile file(in);
  uint64_t bytes = 0;
  for (const io::SafetensorsEntry& entry : file.entries())
    if (io::is_wanted(entry, settings.tensors)) bytes += entry.bytes;
  return bytes;
}

// Another program's file, or a model: a forgotten OUT would cost the last input.
void require_cast_or_nothing(const std::string& in, const std::string& out) {
  refuse_input(out, in);
  if (!is_file(out) || file_size(out) == 0 || io::has_metadata(out, "tensor_scale")) return;
  throw Error({.place = out,
               .key = "",
               .problem = "is there and not known as a cast",
               .remedy = "the file to write, after the inputs, under another name"});
}

CastReport cast_file(const std::string& in, const std::string& out, const CastSettings& settings,
                     const CastProgress& progress) {
  const io::TensorFile file(in);
  require_cast_or_nothing(in, out);
  CastReport report;
  std::vector<Item> items = items_of(file, settings, report);
  std::vector<io::SafetensorsTensor> outputs;
  for (Item& item : items) {
    (void)io::FloatReader(*item.entry);  // refuses a dtype before anything is written
    add_outputs(settings, item, outputs);
  }
  cpu::Workspace workspace(settings.threads);
  io::SafetensorsWriter writer(out, outputs, metadata_of(settings, items));
  uint64_t done = 0;
  for (const Item& item : items) {
    const auto bytes = static_cast<double>(item.entry->bytes);
    report.tensors.push_back(
        TensorCast(workspace, settings, item).run(writer, settings, [&](double share) {
          progress(done + static_cast<uint64_t>(share * bytes));
        }));
    done += item.entry->bytes;
  }
  writer.commit();
  return report;
}

}  // namespace ng
