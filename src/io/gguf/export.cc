#include "io/gguf/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/glob.h"
#include "base/json.h"
#include "base/output_file.h"
#include "format/packing.h"
#include "io/gguf/model.h"
#include "io/gguf/rope.h"
#include "io/gguf/tokenizer.h"
#include "io/model_files.h"
#include "io/narrow_form.h"
#include "io/plain_rows.h"
#include "recipe/layer_names.h"

namespace ng {
namespace {

std::string lower(std::string_view text) {
  std::string low(text);
  std::transform(low.begin(), low.end(), low.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return low;
}

/// Throws Error at the flag where there is no such type, or none that is written.
std::string type_named(const std::string& name, const std::string& flag) {
  const std::vector<std::string> written = gguf_export_types();
  const bool is_written = std::find(written.begin(), written.end(), name) != written.end();
  for (const io::GgufTensorType& type : io::gguf_tensor_types())
    if (is_written && lower(type.name) == name) return std::string(type.name);
  throw Error({.place = flag,
               .key = "",
               .problem = fmt::format("\"{}\" is no type of GGUF that is written", name),
               .remedy = fmt::format("{}", fmt::join(written, " "))});
}

/// What form a type of GGUF has; none of those that store values one by one, and of Q8_0.
std::optional<NarrowForm> narrow_form_of(std::string_view gguf_type) {
  if (gguf_type == "MXFP4") return NarrowForm::mxfp4;
  if (gguf_type == "NVFP4") return NarrowForm::nvfp4;
  return {};
}

/// Row `row` of a matrix whose cast the form holds, in GGUF's blocks.
std::vector<std::byte> gguf_row(const NarrowMatrix& matrix, NarrowForm form, int64_t row) {
  const GgufBlock& kind = form == NarrowForm::mxfp4 ? kGgufMxfp4 : kGgufNvfp4;
  std::vector<std::byte> bytes(static_cast<size_t>(matrix.cols / kind.elements * kind.bytes()));
  pack_gguf(kind, codes_of_row(matrix, row), scale_codes_of_row(matrix, row),
            {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

/// A tensor of the file, as what it is written.
struct Planned {
  io::GgufModelTensor tensor;
  std::string type;
};

class GgufExporter {
 public:
  explicit GgufExporter(const GgufExport& request)
      : request_(request),
        weights_(request.model, request.trained, request.threads),
        type_(type_named(request.type, "--type")),
        used_(request.keep.size()),
        rope_factors_(io::gguf_rope_factors(weights_.config())) {
    io::require_gguf_form(config(), request.model.path);
    for (io::GgufModelTensor& tensor : io::gguf_model_tensors(weights_.config()))
      plan_.push_back({std::move(tensor), {}});
    for (Planned& planned : plan_) planned.type = type_of(planned.tensor);
    for (size_t i = 0; i < used_.size(); ++i)
      if (!used_[i])
        throw Error({.place = "--keep",
                     .key = request.keep[i].first,
                     .problem = "matches no matrix whose type can be chosen",
                     .remedy = "names of the file, as 'blk.0.*' or 'token_embd.weight'"});
    for (const Planned& planned : plan_) check(planned);
  }

  std::vector<std::string> write() {
    io::GgufKeys keys = io::gguf_model_keys(weights_.config(), request_.name, type_);
    refuse_input(request_.out, io::sizes_place(request_.model));  // adapters' base
    GgufTokenizer tokenizer = gguf_tokenizer(request_.model, weights_.config().vocab);
    for (auto& key : tokenizer.keys) keys.push_back(std::move(key));
    io::GgufWriter writer(request_.out, keys, tensors());
    writer.write(std::as_bytes(std::span(rope_factors_)));
    for (const Planned& planned : plan_) write(planned, &writer);
    writer.commit();
    std::vector<std::string> said = notes();
    said.insert(said.end(), tokenizer.notes.begin(), tokenizer.notes.end());
    return said;
  }

 private:
  [[nodiscard]] const ModelConfig& config() const { return weights_.config(); }
  [[nodiscard]] bool is_trained(const Planned& planned) const {
    return weights_.is_trained(planned.tensor.tensor.spec);
  }
  [[nodiscard]] Operand cast_of(const Planned& planned) const {
    return weights_.trained_operand(planned.tensor.tensor.spec, planned.tensor.name);
  }

  /// The type of a tensor; marks the exceptions that name it.
  std::string type_of(const io::GgufModelTensor& tensor) {
    const ParameterSpec& spec = tensor.tensor.spec;
    const bool is_fixed = spec.is_vector || layers::layer_of(spec.name) == layers::kPos;
    if (is_fixed) return "F32";
    std::string type = type_;
    if (!is_block_matrix(spec) && narrow_form_of(type_)) type = "BF16";
    for (size_t i = 0; i < request_.keep.size(); ++i) {
      const auto& [pattern, name] = request_.keep[i];
      if (!glob_matches(pattern, tensor.name) && !glob_matches(pattern, spec.hf_name)) continue;
      used_[i] = true;
      type = type_named(name, fmt::format("--keep '{}={}'", pattern, name));
    }
    return type;
  }

  [[noreturn]] void refuse(const Planned& planned, const std::string& problem,
                           const std::string& remedy) const {
    throw Error({request_.model.path, json_text(Json(planned.tensor.name)), problem, remedy});
  }

  void check(const Planned& planned) const {
    const ParameterSpec& spec = planned.tensor.tensor.spec;
    if (planned.type == "NVFP4") check_nvfp4(planned);
    const bool is_embedding = layers::layer_of(spec.name) == layers::kEmbed;
    if (is_embedding && narrow_form_of(planned.type))
      refuse(planned,
             fmt::format("an embedding{} cannot be {}",
                         config().tie_embeddings ? ", which is the head too," : "",
                         lower(planned.type)),
             "bf16, f16, f32 or q8_0");
    io::require_gguf_tensor({planned.tensor.name, planned.type, planned.tensor.shape()},
                            request_.model.path);
    if (is_trained(planned)) check_trained(planned);
  }

  /// llama.cpp b11549 loads the scale of such a tensor and does not multiply by it, or aborts.
  void check_nvfp4(const Planned& planned) const {
    const Architecture architecture = config().architecture;
    const std::string remedy = "mxfp4, q8_0 or bf16";
    if (architecture == Architecture::gpt2 || architecture == Architecture::qwen2)
      refuse(planned,
             fmt::format("llama.cpp ignores the scales of NVFP4 tensors of {}, without a word",
                         io::gguf_architecture(architecture)),
             remedy);
    if (config().mlp_bias)
      refuse(planned, "llama.cpp aborts on NVFP4 tensors of a llama with biases in its MLPs",
             remedy);
  }

  void check_trained(const Planned& planned) const {
    const std::string& name = planned.tensor.name;
    const Operand cast = cast_of(planned);
    const std::optional<NarrowForm> form = narrow_form_of(planned.type);
    const bool is_held = form ? holds(*form, cast, {}) : planned.type != "Q8_0";
    weights_.require_held(planned.tensor.tensor.spec, name, is_held, lower(planned.type),
                          fmt::format("--keep '{}=bf16'", name));
  }

  static io::GgufTensor scale_of(const Planned& planned) {
    const std::string& name = planned.tensor.name;
    return {name.substr(0, name.rfind('.')) + ".scale", "F32", {1}};
  }

  [[nodiscard]] std::vector<io::GgufTensor> tensors() const {
    std::vector<io::GgufTensor> tensors;
    if (!rope_factors_.empty())
      tensors.push_back({std::string(io::kGgufRopeFactors), "F32", {std::ssize(rope_factors_)}});
    for (const Planned& planned : plan_) {
      tensors.push_back({planned.tensor.name, planned.type, planned.tensor.shape()});
      if (planned.type == "NVFP4") tensors.push_back(scale_of(planned));
    }
    return tensors;
  }

  void write(const Planned& planned, io::GgufWriter* writer) {
    const io::HfTensor& tensor = planned.tensor.tensor;
    const ParameterSpec& spec = tensor.spec;
    if (narrow_form_of(planned.type) || weights_.has_trained_codes(spec, planned.tensor.name))
      return write_whole(planned, writer);
    if (spec.is_vector) return write_vector(planned, writer);
    PlainRows rows = rows_of(planned);
    std::vector<float> row(static_cast<size_t>(spec.cols));
    for (int64_t r = 0; r < spec.rows; ++r) {
      weights_.read_row(static_cast<size_t>(tensor.parameter), planned.tensor.row_of_parameter(r),
                        row);
      writer->write(rows.bytes(row));
    }
  }

  [[nodiscard]] PlainRows rows_of(const Planned& planned) const {
    return {planned.type, refuse_value_of(request_.model.path, planned.tensor.name, planned.type)};
  }

  /// Of what is no parameter, zeros.
  void write_vector(const Planned& planned, io::GgufWriter* writer) const {
    const std::vector<float> values = weights_.values(planned.tensor.tensor);
    std::vector<float> stored(values.size());
    for (size_t i = 0; i < stored.size(); ++i)
      stored[i] =
          values[static_cast<size_t>(planned.tensor.row_of_parameter(static_cast<int64_t>(i)))];
    writer->write(std::as_bytes(std::span(stored)));
  }

  /// A matrix that is quantized as a whole, then written in the file's order of rows.
  void write_whole(const Planned& planned, io::GgufWriter* writer) {
    const ParameterSpec& spec = planned.tensor.tensor.spec;
    std::vector<float> values = weights_.values(planned.tensor.tensor);
    const std::optional<NarrowForm> form = narrow_form_of(planned.type);
    const NarrowMatrix narrow = is_trained(planned)
                                    ? weights_.trained_matrix(spec, values)
                                    : quantize({values.data(), spec.rows, spec.cols, spec.cols},
                                               operand_of(*form, {}), {}, request_.threads);
    if (form) {
      for (int64_t r = 0; r < spec.rows; ++r)
        writer->write(gguf_row(narrow, *form, planned.tensor.row_of_parameter(r)));
      if (*form == NarrowForm::nvfp4)
        writer->write(std::as_bytes(std::span(&narrow.tensor_scale, 1)));
      return;
    }
    dequantize(narrow, {values.data(), spec.rows, spec.cols, spec.cols}, request_.threads);
    PlainRows rows = rows_of(planned);
    const auto cols = static_cast<size_t>(spec.cols);
    for (int64_t r = 0; r < spec.rows; ++r) {
      const auto row = static_cast<size_t>(planned.tensor.row_of_parameter(r));
      writer->write(rows.bytes(std::span(values).subspan(row * cols, cols)));
    }
  }

  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes = weights_.left_out();
    if (config().architecture == Architecture::gpt2 && config().gelu == GeluKind::erf)
      notes.emplace_back(
          "llama.cpp computes GPT-2's GELU by tanh, this model has it by erf: logits differ by "
          "some "
          "0.001");
    const auto loses_codes = [&](const Planned& planned) {
      return is_trained(planned) && !narrow_form_of(planned.type) && planned.type != "F32" &&
             !cast_of(planned).is_unscaled();
    };
    const auto first = std::find_if(plan_.begin(), plan_.end(), loses_codes);
    if (first != plan_.end())
      notes.push_back(fmt::format(
          "{} and others go out as the values of their codes in {}: exact where their scales are "
          "powers of two",
          first->tensor.name, lower(first->type)));
    if (const auto wide = note_of_wide()) notes.push_back(*wide);
    return notes;
  }

  [[nodiscard]] std::optional<std::string> note_of_wide() const {
    std::vector<std::string> names;
    const Planned* first = nullptr;
    for (const Planned& planned : plan_) {
      if (!is_trained(planned) || !is_wide(cast_of(planned))) continue;
      if (first == nullptr) first = &planned;
      names.push_back(planned.tensor.name);
    }
    if (first == nullptr) return {};
    return weights_.note_of_wide(names, first->tensor.tensor.spec, first->type);
  }

  const GgufExport& request_;
  ModelWeights weights_;
  std::string type_;
  std::vector<bool> used_;  ///< which exceptions name a tensor
  std::vector<Planned> plan_;
  std::vector<float> rope_factors_;  ///< a tensor of the file where there are any
};

}  // namespace

std::vector<std::string> gguf_export_types() {
  return {"f32", "f16", "bf16", "q8_0", "mxfp4", "nvfp4"};
}

std::vector<std::string> export_gguf(const GgufExport& request) {
  return GgufExporter(request).write();
}

}  // namespace ng
