#include "interop/export_hf.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/output_file.h"
#include "interop/gguf_rows.h"
#include "interop/hf_files.h"
#include "interop/hf_rows.h"
#include "interop/hf_types.h"
#include "io/gguf.h"
#include "io/hf_names.h"
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
  throw Error({.place = flag, .key = "", .problem = problem, .remedy = remedy});
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

class Exporter {
 public:
  explicit Exporter(const HfExport& request)
      : request_(request),
        type_(type_named(request.type)),
        weights_(request.model),
        tensors_(io::hf_tensors(weights_.config())) {
    block_ = {.kind = Block::Kind::tile, .rows = kDefaultBlock, .cols = kDefaultBlock};
    if (request.block) block_.rows = request.block->first, block_.cols = request.block->second;
    check_flags();
    if (type_.form && config().architecture == Architecture::gpt2)
      throw Error({.place = request.model,
                   .key = "",
                   .problem = fmt::format("{} has no quantized layout: its modules are no Linear",
                                          parts_of(config().architecture).name),
                   .remedy = "--type bf16, or --to gguf --type q8_0"});
    for (const io::HfTensor& tensor : tensors_)
      if (is_block_matrix(tensor.spec)) check(tensor.spec);
  }

  std::vector<std::string> write() {
    refuse_input(request_.out, io::sizes_place(request_.model));  // adapters' base
    io::require_replaceable(request_.out);
    FolderWriter folder(request_.out);
    write_weights(join_path(folder.path(), io::kHfWeights));
    const OrderedJson quantization =
        type_.form ? quantization_config(type_, block_) : OrderedJson(nullptr);
    write_file_atomically(
        join_path(folder.path(), io::kHfConfig),
        exported_config_text(io::sizes_place(request_.model), config(), type_.torch, quantization));
    const std::optional<std::string> lost =
        add_tokenizer_files(io::tokenizer_place(request_.model), folder.path());
    folder.publish(Replace::always);
    std::vector<std::string> said = notes();
    if (lost) said.push_back(*lost);
    return said;
  }

 private:
  [[nodiscard]] const ModelConfig& config() const { return weights_.config(); }

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
    const auto refuse = [&](const std::string& problem, const std::string& remedy) {
      throw Error({.place = request_.model,
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
    if (request_.trained) check_trained(spec);
  }

  void check_trained(const ParameterSpec& spec) const {
    const Operand cast = trained_operand(*request_.trained, config(), spec, spec.hf_name);
    if (!type_.form || holds(*type_.form, cast, block_)) return;
    throw Error({.place = request_.trained->shown,
                 .key = spec.hf_name,
                 .problem = fmt::format("fprop's weight is {}, which {} does not hold",
                                        describe(cast), type_.name),
                 .remedy = "a type that does, or bf16"});
  }

  [[nodiscard]] bool is_narrow(const ParameterSpec& spec) const {
    return type_.form && is_block_matrix(spec);
  }

  void write_weights(const std::string& path) {
    std::vector<io::SafetensorsTensor> header;
    for (const io::HfTensor& tensor : tensors_) {
      if (is_narrow(tensor.spec))
        for (auto& part : layout_tensors(type_, tensor.spec, block_)) header.push_back(part);
      else
        header.push_back(
            {tensor.spec.hf_name, std::string(type_.dtype), io::hf_shape(tensor.spec), nullptr});
    }
    io::SafetensorsWriter writer(path, header, {{"format", "pt"}});
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (is_narrow(tensors_[i].spec))
        write_narrow(i, &writer);
      else
        write_plain(tensors_[i], &writer);
    }
    writer.commit();
  }

  static size_t index_of(const io::HfTensor& tensor) {
    return static_cast<size_t>(tensor.parameter);
  }

  /// A matrix cast for itself, or below those whose scale it shares.
  void write_narrow(size_t i, io::SafetensorsWriter* writer) {
    const ParameterSpec& spec = tensors_[i].spec;
    if (request_.trained) {
      const std::vector<float> values = weights_.values(index_of(tensors_[i]), spec);
      const NarrowMatrix matrix =
          trained_matrix(*request_.trained, config(), spec, values, request_.threads);
      return write_layout(type_, matrix, encode_scale_of_tensor(values, matrix.cast), writer);
    }
    int64_t first = 0, rows = 0;
    std::vector<float> values;
    for (size_t j = 0; j < tensors_.size(); ++j) {
      if (j != i && !shares_scale(i, j)) continue;
      const std::vector<float> more = weights_.values(index_of(tensors_[j]), tensors_[j].spec);
      if (j == i) first = rows;
      rows += tensors_[j].spec.rows;
      values.insert(values.end(), more.begin(), more.end());
    }
    const Operand cast = operand_of(*type_.form, block_);
    const NarrowMatrix whole =
        quantize({values.data(), rows, spec.cols, spec.cols}, cast, {}, request_.threads);
    write_layout(type_, rows == spec.rows ? whole : rows_of(whole, first, spec.rows),
                 encode_scale_of_tensor(values, cast), writer);
  }

  [[nodiscard]] bool shares_scale(size_t i, size_t j) const {
    if (!request_.share_scales || !is_narrow(tensors_[j].spec)) return false;
    const layers::Place a = layers::place_of(layers::layer_of(tensors_[i].spec.name));
    const layers::Place b = layers::place_of(layers::layer_of(tensors_[j].spec.name));
    return a.block == b.block && are_fused(a.part, b.part);
  }

  /// Values one by one; of a trained matrix those of its codes.
  void write_plain(const io::HfTensor& tensor, io::SafetensorsWriter* writer) {
    const ParameterSpec& spec = tensor.spec;
    std::vector<float> values(static_cast<size_t>(spec.rows * spec.cols));
    if (tensor.parameter >= 0) values = weights_.values(index_of(tensor), spec);
    if (has_trained_codes(spec))
      values =
          dequantize(trained_matrix(*request_.trained, config(), spec, values, request_.threads),
                     request_.threads);
    if (spec.hf_transposed) values = transposed(values, spec);
    PlainRows rows(type_.dtype, request_.model, spec.hf_name);
    const auto step = static_cast<size_t>(spec.hf_transposed ? spec.rows : spec.cols);
    for (size_t at = 0; at < values.size(); at += step)
      writer->write(rows.bytes(std::span(values).subspan(at, step)));
  }

  [[nodiscard]] bool has_trained_codes(const ParameterSpec& spec) const {
    return request_.trained && is_block_matrix(spec) &&
           !trained_operand(*request_.trained, config(), spec, spec.hf_name).is_fp32();
  }

  static std::vector<float> transposed(const std::vector<float>& values,
                                       const ParameterSpec& spec) {
    const auto rows = static_cast<size_t>(spec.rows), cols = static_cast<size_t>(spec.cols);
    std::vector<float> turned(values.size());
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < cols; ++c) turned[c * rows + r] = values[r * cols + c];
    return turned;
  }

  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    if (type_.form == NarrowForm::nvfp4 && !request_.share_scales)
      notes.emplace_back(
          "q, k, v and gate, up have scales of their own, which are the trained ones; vLLM takes "
          "the "
          "largest for all of a group and loses accuracy: --share-scales gives them one");
    return notes;
  }

  const HfExport& request_;
  const HfType& type_;
  ModelWeights weights_;
  std::vector<io::HfTensor> tensors_;
  Block block_;
};

}  // namespace

std::vector<std::string> hf_export_types() {
  std::vector<std::string> names;
  for (const HfType& type : hf_types())
    if (type.name != "f32") names.emplace_back(type.name);
  return names;
}

std::vector<std::string> export_hf(const HfExport& request) { return Exporter(request).write(); }

}  // namespace ng
