#include "io/hf/files.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/gguf/tokenizer.h"
#include "io/hf/folder.h"
#include "io/hf/names.h"

namespace ng {
namespace {

std::optional<std::string> add_gguf_tokenizer(const io::Gguf& file, const std::string& folder) {
  if (!has_tokenizer(file)) return {};
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = open_gguf_tokenizer(file);
  } catch (const Error& error) {
    return fmt::format("the tokenizer is not written: {}", error.what());
  }
  tokenizer->save(folder);
  return {};
}

}  // namespace

std::string exported_config_text(const std::string& model, const ModelConfig& config,
                                 std::string_view torch_dtype, const OrderedJson& quantization) {
  const std::string text = io::is_gguf(model)
                               ? io::hf_config_text(config, torch_dtype)
                               : read_file(join_path(model, io::kHfConfig), io::kMaxTokenizerBytes);
  OrderedJson json = OrderedJson::parse(text);
  json["dtype"] = torch_dtype;
  json["torch_dtype"] = torch_dtype;  // for transformers 4
  json.erase("quantization_config");
  if (!quantization.is_null()) json["quantization_config"] = quantization;
  return json_text(json, 1) + "\n";
}

std::optional<std::string> add_tokenizer_files(const std::string& model,
                                               const std::string& folder) {
  if (io::is_gguf(model)) return add_gguf_tokenizer(io::Gguf(model), folder);
  for (const std::string_view name :
       {std::string_view("tokenizer.json"), std::string_view("tokenizer_config.json"),
        io::kGenerationConfig}) {
    const std::string path = join_path(model, name);
    if (is_file(path))
      write_file_atomically(join_path(folder, name), read_file(path, io::kMaxTokenizerBytes));
  }
  return {};
}

}  // namespace ng
