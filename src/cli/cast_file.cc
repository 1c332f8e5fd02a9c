#include "cli/cast_file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/glob.h"
#include "cli/tensor_files.h"
#include "cli/tensor_matrix.h"
#include "format/packing.h"

namespace ng::cli {
namespace {

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

std::vector<int64_t> packed_shape(std::vector<int64_t> shape, int bits) {
  if (shape.empty()) return {1};
  shape.back() = static_cast<int64_t>(packed_bytes(shape.back(), bits));
  return shape;
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
                   ? add(".codes", "U8", packed_shape(entry.shape, cast.element->bits))
                   : add(".codes", cast.element->bits <= 8 ? "U8" : "U16", entry.shape);
  if (!cast.is_unscaled())
    item.scale = add(".scale", has_scale_codes(cast) ? "U8" : "F32", item.matrix.scale_shape(cast));
  if (is_affine(cast)) item.zero = add(".zero", "U8", item.matrix.scale_shape(cast));
  if (cast.scale == ScaleKind::e4m3) item.tensor_scale = add(".tensor_scale", "F32", {1});
  item.values = add(".values", "F32", entry.shape);
}

/// Writes the panels of one tensor.
class TensorWriter {
 public:
  TensorWriter(io::SafetensorsWriter& writer, const CastSettings& settings, const Item& item)
      : writer_(writer), settings_(settings), item_(item) {}

  void write(int64_t row, const NarrowMatrix& panel, const std::vector<float>& values) {
    const int64_t elements = item_.entry->elements();
    if (is_packed(settings_))
      write_packed(row, panel);
    else if (settings_.cast.element->bits <= 8)
      put(item_.codes, row, panel.rows, panel.cols, elements, narrow(panel.codes));
    else
      put(item_.codes, row, panel.rows, panel.cols, elements, panel.codes);
    put(item_.values, row, panel.rows, panel.cols, elements, values);
    if (panel.cast.scale == ScaleKind::e4m3 && row == 0)
      writer_.write_at(item_.tensor_scale, 0, std::as_bytes(std::span(&panel.tensor_scale, 1)));
    if (panel.grid.size() > 0) write_scales(row, panel);
  }

 private:
  static std::vector<uint8_t> narrow(const std::vector<uint16_t>& codes) {
    return {codes.begin(), codes.end()};
  }

  template <class Value>
  void put(size_t tensor, int64_t row, int64_t rows, int64_t cols, int64_t total,
           const std::vector<Value>& values) {
    std::vector<Value> run;
    item_.matrix.for_runs(
        row, rows, cols, total, [&](int64_t place, int64_t first, int64_t count, int64_t step) {
          const Value* from = values.data() + first;
          if (step != 1) {
            run.resize(static_cast<size_t>(count));
            for (int64_t j = 0; j < count; ++j) run[static_cast<size_t>(j)] = from[j * step];
            from = run.data();
          }
          writer_.write_at(tensor, static_cast<uint64_t>(place) * sizeof(Value),
                           std::as_bytes(std::span(from, static_cast<size_t>(count))));
        });
  }

  void write_packed(int64_t row, const NarrowMatrix& panel) {
    const int bits = panel.cast.element->bits;
    const auto& shape = item_.entry->shape;
    const int64_t first = row * panel.cols;
    const int64_t count =
        std::min<int64_t>(panel.rows * panel.cols, item_.entry->elements() - first);
    const int64_t length = shape.empty() ? 1 : std::min(shape.back(), count);
    const size_t bytes = packed_bytes(length, bits);
    std::vector<uint8_t> packed(static_cast<size_t>(count / length) * bytes);
    for (int64_t i = 0; i < count / length; ++i)
      pack_codes(std::span(panel.codes).subspan(static_cast<size_t>(i * length), size_t(length)),
                 bits, std::span(packed).subspan(static_cast<size_t>(i) * bytes, bytes));
    const size_t begin = static_cast<size_t>(first / length) * bytes;
    // A folded vector has panels of whole bytes.
    writer_.write_at(
        item_.codes,
        length < (shape.empty() ? 1 : shape.back()) ? packed_bytes(first, bits) : begin,
        std::as_bytes(std::span(packed)));
  }

  void write_scales(int64_t row, const NarrowMatrix& panel) {
    if (scale_spans_rows(panel.cast, panel.along) && row > 0) return;
    const ScaleGrid& grid = panel.grid;
    const ScaleGrid whole =
        scale_grid(panel.cast, panel.along, item_.matrix.rows(), item_.matrix.cols());
    int64_t total = whole.size();
    if (item_.matrix.rows() * item_.matrix.cols() != item_.entry->elements()) {  // folded
      total = 1;
      for (const int64_t size : item_.matrix.scale_shape(settings_.cast)) total *= size;
    }
    const int64_t first = row / grid.block_rows;
    if (has_scale_codes(panel.cast))
      put(item_.scale, first, grid.rows, grid.cols, total, panel.scale_codes);
    else
      put(item_.scale, first, grid.rows, grid.cols, total, panel.scales);
    if (is_affine(panel.cast)) put(item_.zero, first, grid.rows, grid.cols, total, panel.zeros);
  }

  io::SafetensorsWriter& writer_;
  const CastSettings& settings_;
  const Item& item_;
};

/// A tensor from its file into its place in the other, a panel at a time.
class TensorCast {
 public:
  TensorCast(cpu::Workspace& workspace, const CastSettings& settings, const Item& item)
      : threads_(settings.threads),
        item_(item),
        reader_(*item.entry),
        encoder_(workspace, job_of(settings, item)) {}

  CastResult run(io::SafetensorsWriter& writer, const CastSettings& settings,
                 const std::function<void(double share)>& progress) {
    const TensorMatrix& matrix = item_.matrix;
    const int64_t step = encoder_.panel_rows(), rows = matrix.rows();
    const double passes = encoder_.needs_range() ? 2 : 1;
    for (int64_t row = 0; encoder_.needs_range() && row < rows; row += step) {
      encoder_.note(read(row, step));
      progress(1 / passes * share_of(row + step));
    }
    TensorWriter out(writer, settings, item_);
    CastResult result{item_.entry->name, item_.entry->dtype, item_.entry->shape, {}, {}};
    ErrorSums errors;
    int64_t row = 0;
    do {  // an empty tensor has scales too
      const ConstView panel = read(row, step);
      encoder_.encode(row, panel, narrow_);
      decoded_.resize(narrow_.codes.size());
      const View decoded{decoded_.data(), panel.rows, panel.cols, panel.cols};
      dequantize(narrow_, decoded, threads_);
      errors.add(matrix.errors(row, panel, decoded_, threads_));
      result.counts += narrow_.counts;
      out.write(row, narrow_, decoded_);
      row += step;
      progress((passes - 1) / passes + 1 / passes * share_of(row));
    } while (row < rows);
    errors.add_saturated(result.counts.saturated);
    result.counts.values = static_cast<uint64_t>(item_.entry->elements());
    result.errors = errors.metrics();
    return result;
  }

 private:
  static EncodeJob job_of(const CastSettings& settings, const Item& item) {
    const RandomKey key{
        .seed = settings.seed, .tensor = item.place, .step = 0, .purpose = Purpose::fprop_input};
    return {.cast = item.matrix.cast_of(settings.cast),
            .options = {.along = item.matrix.along(), .key = key},
            .rows = item.matrix.rows(),
            .cols = item.matrix.cols()};
  }
  [[nodiscard]] double share_of(int64_t rows) const {
    return std::min(1.0, static_cast<double>(rows) /
                             static_cast<double>(std::max<int64_t>(item_.matrix.rows(), 1)));
  }
  ConstView read(int64_t row, int64_t step) {
    const int64_t rows = std::min(step, item_.matrix.rows() - row), cols = item_.matrix.cols();
    values_.resize(static_cast<size_t>(rows * cols));
    item_.matrix.read(reader_, row, rows, values_);
    return {values_.data(), rows, cols, cols};
  }

  Threads threads_;
  const Item& item_;
  io::FloatReader reader_;
  NarrowEncoder encoder_;
  NarrowMatrix narrow_;
  std::vector<float> values_, decoded_;
};

bool is_wanted(const io::SafetensorsEntry& entry, const CastSettings& settings) {
  return is_float(entry) && glob_matches(settings.tensors, entry.name);
}

std::vector<Item> items_of(const io::Safetensors& file, const CastSettings& settings,
                           CastReport& report) {
  std::vector<Item> items;
  for (size_t i = 0; i < file.entries().size(); ++i) {
    const io::SafetensorsEntry& entry = file.entries()[i];
    if (is_wanted(entry, settings))
      items.push_back(
          {.entry = &entry, .place = static_cast<uint32_t>(i), .matrix = {entry, settings.axis}});
    else if (glob_matches(settings.tensors, entry.name))
      report.skipped.push_back(entry.name);
  }
  if (items.empty())
    throw Error({.place = file.path(),
                 .key = "",
                 .problem = fmt::format("no float tensor matches \"{}\"", settings.tensors),
                 .remedy = fmt::format("one of its {} tensors", file.entries().size())});
  return items;
}

void refuse_same_file(const std::string& in, const std::string& out) {
  std::error_code unknown;
  if (!std::filesystem::equivalent(in, out, unknown) || unknown) return;
  throw Error({.place = out,
               .key = "",
               .problem = in == out ? "is the input" : fmt::format("is the same file as {}", in),
               .remedy = "another name for the output"});
}

}  // namespace

uint64_t bytes_to_cast(const std::string& in, const CastSettings& settings) {
  const io::Safetensors file(in);
  uint64_t bytes = 0;
  for (const io::SafetensorsEntry& entry : file.entries())
    if (is_wanted(entry, settings)) bytes += entry.bytes;
  return bytes;
}

CastReport cast_file(const std::string& in, const std::string& out, const CastSettings& settings,
                     const CastProgress& progress) {
  const io::Safetensors file(in);
  refuse_same_file(in, out);
  CastReport report;
  std::vector<Item> items = items_of(file, settings, report);
  std::vector<io::SafetensorsTensor> outputs;
  for (Item& item : items) {
    (void)io::FloatReader(*item.entry);  // refuses a dtype before anything is written
    add_outputs(settings, item, outputs);
  }
  cpu::Workspace workspace(settings.threads);
  io::SafetensorsWriter writer(out, outputs);
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

}  // namespace ng::cli
