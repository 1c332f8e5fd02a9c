#include "interop/hf_files.h"

#include "base/files.h"
#include "base/json.h"
#include "interop/gguf_tokenizer.h"
#include "io/hf_folder.h"
#include "io/hf_names.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

constexpr size_t kMaxFileBytes = 256 << 20;

}  // namespace

std::string exported_config_text(const std::string& model, const ModelConfig& config,
                                 std::string_view torch_dtype, const OrderedJson& quantization) {
  const std::string text = io::is_gguf(model)
                               ? io::hf_config_text(config, torch_dtype)
                               : read_file(join_path(model, io::kHfConfig), kMaxFileBytes);
  OrderedJson json = OrderedJson::parse(text);
  json["dtype"] = torch_dtype;
  json["torch_dtype"] = torch_dtype;  // for transformers 4
  json.erase("quantization_config");
  if (!quantization.is_null()) json["quantization_config"] = quantization;
  return json_text(json, 1) + "\n";
}

bool add_tokenizer_files(const std::string& model, const std::string& folder) {
  if (io::is_gguf(model)) {
    const io::Gguf file(model);
    if (is_byte_tokenizer(file)) ByteTokenizer().save(folder);
    return is_byte_tokenizer(file) || file.text_or("tokenizer.ggml.model", "none") == "none";
  }
  for (const std::string_view name :
       {std::string_view("tokenizer.json"), std::string_view("tokenizer_config.json"),
        io::kGenerationConfig}) {
    const std::string path = join_path(model, name);
    if (is_file(path))
      write_file_atomically(join_path(folder, name), read_file(path, kMaxFileBytes));
  }
  return true;
}

}  // namespace ng
