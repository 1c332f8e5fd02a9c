#include "io/hf/export.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/output_file.h"
#include "io/hf/beside_weights.h"
#include "io/hf/folder.h"
#include "io/hf/names.h"
#include "io/hf/shard.h"
#include "io/hf/types.h"
#include "io/model_files.h"
#include "model/architecture.h"
#include "recipe/layer_names.h"

namespace ng {
namespace {

constexpr int kDefaultBlock = 128;

const HfType& type_named(const std::string& name) {
  for (const HfType& type : hf_types())
    if (type.name == name) return type;
  throw Error({.place = "--type",
               .key = "",
               .problem = fmt::format("\"{}\" is no type of a folder", name),
               .remedy = fmt::format("{}", fmt::join(hf_export_types(), " "))});
}

[[noreturn]] void refuse_flag(const char* flag, const std::string& problem,
                              const std::string& remedy) {
  throw Error({flag, "", problem, remedy});
}

/// Parts of a block whose matrices other programs read as one.
bool are_fused(std::string_view a, std::string_view b) {
  const auto is_one_of = [](std::string_view part, const auto& parts) {
    return std::find(std::begin(parts), std::end(parts), part) != std::end(parts);
  };
  constexpr std::array kAttention = {layers::kQ, layers::kK, layers::kV};
  constexpr std::array kMlp = {layers::kGate, layers::kUp};
  return (is_one_of(a, kAttention) && is_one_of(b, kAttention)) ||
         (is_one_of(a, kMlp) && is_one_of(b, kMlp));
}

/// Rows [first, first + rows) of a matrix whose scales are a row's own, or the tensor's.
NarrowMatrix rows_of(NarrowMatrix matrix, int64_t first, int64_t rows) {
  const auto cut = [&](auto& values, int64_t cols) {
    values = {values.begin() + first * cols, values.begin() + (first + rows) * cols};
  };
  cut(matrix.codes, matrix.cols);
  if (matrix.grid.block_rows == 1 && !matrix.scale_codes.empty()) {
    cut(matrix.scale_codes, matrix.grid.cols);
    cut(matrix.scales, matrix.grid.cols);
    matrix.grid.rows = rows;
  }
  matrix.rows = rows;
  return matrix;
}

class HfExporter {
 public:
  explicit HfExporter(const HfExport& request)
      : request_(request),
        type_(type_named(request.type)),
        weights_(request.model, request.trained, request.threads),
        tensors_(io::hf_tensors(weights_.config())) {
    block_ = {.kind = Block::Kind::tile, .rows = kDefaultBlock, .cols = kDefaultBlock};
    if (request.block) block_.rows = request.block->first, block_.cols = request.block->second;
    check_flags();
    if (type_.form && config().architecture == Architecture::gpt2)
      throw Error({.place = request.model.path,
                   .key = "",
                   .problem = fmt::format("{} has no quantized layout: its modules are no Linear",
                                          parts_of(config().architecture).name),
                   .remedy = "--type bf16, or --to gguf --type q8_0"});
    leave_wide();
    for (const io::HfTensor& tensor : tensors_)
      if (is_block_matrix(tensor.spec)) check(tensor.spec);
  }

  std::vector<std::string> write() {
    refuse_input(request_.out, io::sizes_place(request_.model));  // adapters' base
    io::require_replaceable(request_.out);
    FolderWriter folder(request_.out);
    write_weights(folder.path());
    const OrderedJson quantization =
        type_.form ? quantization_config(type_, block_, wide_modules()) : OrderedJson(nullptr);
    io::write_configs(folder.path(), request_.model, config(), type_.torch, quantization);
    const std::optional<std::string> lost = io::add_tokenizer_files(folder.path(), request_.model);
    io::publish_model(folder, request_.out);
    std::vector<std::string> said = notes();
    if (lost) said.push_back(*lost);
    return said;
  }

 private:
  [[nodiscard]] const ModelConfig& config() const { return weights_.config(); }

  [[nodiscard]] Operand trained_cast(const ParameterSpec& spec) const {
    return weights_.trained_operand(spec, spec.hf_name);
  }

  /// Finds the matrices that a recipe leaves wide. Where it quantizes none, a quantized folder has
  /// nothing to hold, and they are refused as what the type does not hold.
  void leave_wide() {
    if (!request_.trained) return;
    bool all = true;
    for (const io::HfTensor& tensor : tensors_) {
      if (!is_block_matrix(tensor.spec)) continue;
      if (is_wide(trained_cast(tensor.spec)))
        wide_.push_back(tensor.spec.hf_name);
      else
        all = false;
    }
    if (all && type_.form) wide_.clear();
  }

  [[nodiscard]] bool is_left_wide(const ParameterSpec& spec) const {
    return std::find(wide_.begin(), wide_.end(), spec.hf_name) != wide_.end();
  }

  /// "model.layers.0.mlp.up_proj"
  [[nodiscard]] std::vector<std::string> wide_modules() const {
    std::vector<std::string> modules;
    for (const std::string& name : wide_) modules.push_back(name.substr(0, name.rfind('.')));
    return modules;
  }

  void check_flags() const {
    if (request_.block && !type_.has_block)
      refuse_flag("--block", fmt::format("{} has no blocks to choose", type_.name),
                  "fp8_block or fp8_fine");
    if (!request_.share_scales) return;
    if (!type_.has_tensor_scale())
      refuse_flag("--share-scales", fmt::format("{} has no scale of the tensor", type_.name),
                  "nvfp4, modelopt or fp8_tensor");
    if (request_.trained)
      refuse_flag("--share-scales", "the trained codes have scales of their own",
                  "one of --share-scales and --weights trained");
  }

  void check(const ParameterSpec& spec) const {
    if (is_left_wide(spec)) return;
    const auto refuse = [&](const std::string& problem, const std::string& remedy) {
      throw Error({.place = request_.model.path,
                   .key = json_text(Json(spec.hf_name)),
                   .problem = fmt::format("shape [{},{}] {}", spec.rows, spec.cols, problem),
                   .remedy = remedy});
    };
    const int64_t group = type_.form ? block_of(*type_.form) : 0;
    if (group > 0 && spec.cols % group != 0)
      refuse(fmt::format("has rows of no whole blocks of {}", group), "fp8_channel or bf16");
    const bool is_fine = type_.layout == io::WeightLayout::fp8_fine;
    if (is_fine && (spec.rows % block_.rows != 0 || spec.cols % block_.cols != 0))
      refuse(fmt::format("is no multiple of blocks of {}x{}", block_.rows, block_.cols),
             "--block with sizes that divide it, or fp8_block");
    if (!request_.trained) return;
    const Operand cast = trained_cast(spec);
    weights_.require_held(spec, spec.hf_name, !type_.form || holds(*type_.form, cast, block_),
                          type_.name, "a type that does, or bf16");
  }

  [[nodiscard]] bool is_narrow(const ParameterSpec& spec) const {
    return type_.form && is_block_matrix(spec) && !is_left_wide(spec);
  }

  /// What stands for a tensor in a file, without data.
  [[nodiscard]] io::StoredParts stored(const io::HfTensor& tensor) const {
    if (is_narrow(tensor.spec)) return layout_tensors(type_, tensor.spec, block_);
    return io::plain_parts(std::span(&tensor, 1), type_.dtype).front();
  }

  void write_weights(const std::string& folder) {
    std::vector<io::StoredParts> parts;
    for (const io::HfTensor& tensor : tensors_) parts.push_back(stored(tensor));
    io::write_shards(folder, parts, request_.max_shard_bytes,
                     [&](size_t i, io::SafetensorsWriter& file) {
                       if (is_narrow(tensors_[i].spec))
                         write_narrow(i, file);
                       else
                         write_plain(tensors_[i], file);
                     });
  }

  /// A matrix cast for itself, or below those whose scale it shares.
  void write_narrow(size_t i, io::SafetensorsWriter& file) {
    const ParameterSpec& spec = tensors_[i].spec;
    if (request_.trained) {
      const std::vector<float> values = weights_.values(tensors_[i]);
      const NarrowMatrix matrix = weights_.trained_matrix(spec, values);
      return write_layout(type_, matrix, encode_scale_of_tensor(values, matrix.cast), &file);
    }
    int64_t first = 0, rows = 0;
    std::vector<float> values;
    for (size_t j = 0; j < tensors_.size(); ++j) {
      if (j != i && !shares_scale(i, j)) continue;
      const std::vector<float> more = weights_.values(tensors_[j]);
      if (j == i) first = rows;
      rows += tensors_[j].spec.rows;
      values.insert(values.end(), more.begin(), more.end());
    }
    const Operand cast = operand_of(*type_.form, block_);
    const NarrowMatrix whole =
        quantize({values.data(), rows, spec.cols, spec.cols}, cast, {}, request_.threads);
    write_layout(type_, rows == spec.rows ? whole : rows_of(whole, first, spec.rows),
                 encode_scale_of_tensor(values, cast), &file);
  }

  [[nodiscard]] bool shares_scale(size_t i, size_t j) const {
    if (!request_.share_scales || !is_narrow(tensors_[j].spec)) return false;
    const layers::Place a = layers::place_of(layers::layer_of(tensors_[i].spec.name));
    const layers::Place b = layers::place_of(layers::layer_of(tensors_[j].spec.name));
    return a.block == b.block && are_fused(a.part, b.part);
  }

  /// Values one by one; of a trained matrix those of its codes.
  void write_plain(const io::HfTensor& tensor, io::SafetensorsWriter& file) {
    const ParameterSpec& spec = tensor.spec;
    PlainRows rows(type_.dtype, refuse_value_of(request_.model.path, spec.hf_name, type_.dtype));
    std::vector<float> decoded;
    if (weights_.has_trained_codes(spec, spec.hf_name))
      decoded =
          dequantize(weights_.trained_matrix(spec, weights_.values(tensor)), request_.threads);
    io::write_rows(
        tensor,
        [&](size_t index, int64_t row, std::span<float> values) {
          if (decoded.empty()) return weights_.read_row(index, row, values);
          std::copy_n(decoded.begin() + row * spec.cols, values.size(), values.begin());
        },
        rows, file);
  }

  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes = weights_.left_out();
    if (type_.form == NarrowForm::nvfp4 && !request_.share_scales)
      notes.emplace_back(
          "q, k, v and gate, up have scales of their own, which are the trained ones; vLLM takes "
          "the "
          "largest for all of a group and loses accuracy: --share-scales gives them one");
    if (wide_.empty()) return notes;
    if (type_.form)
      notes.push_back(
          fmt::format("{} matrices that the recipe does not quantize are BF16: config.json names "
                      "them as ignored",
                      wide_.size()));
    const auto first = std::find_if(
        tensors_.begin(), tensors_.end(),
        [&](const io::HfTensor& tensor) { return tensor.spec.hf_name == wide_.front(); });
    if (const auto note = weights_.note_of_wide(wide_, first->spec, type_.dtype))
      notes.push_back(*note);
    return notes;
  }

  const HfExport& request_;
  const HfType& type_;
  ModelWeights weights_;
  std::vector<io::HfTensor> tensors_;
  Block block_;
  std::vector<std::string> wide_;  ///< names of matrices that training did not quantize
};

}  // namespace

std::vector<std::string> hf_export_types() {
  std::vector<std::string> names;
  for (const HfType& type : hf_types())
    if (type.name != "f32") names.emplace_back(type.name);
  return names;
}

std::vector<std::string> export_hf(const HfExport& request) { return HfExporter(request).write(); }

}  // namespace ng
