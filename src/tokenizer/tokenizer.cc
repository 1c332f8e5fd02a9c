#include "tokenizer/tokenizer.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/subword_tokenizer.h"

namespace ng {
namespace {

constexpr size_t kMaxBytes = 64 << 20;

// Other files than its own, damaged ones too, are for SubwordTokenizer to read or to refuse.
bool is_byte_tokenizer(const Json& json, const std::string& path) {
  try {
    require_byte_tokenizer(json, path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string chat_template(const TokenizerFiles& files) {
  if (files.config.empty()) return "";
  const Json config = parse_json(files.config, files.config_place);
  return chat_template_in_config(JsonObject(config, files.config_place));
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  const std::string path = is_folder(name) ? join_path(name, "tokenizer.json") : name;
  if (!is_file(path)) {
    throw Error({.place = path,
                 .key = "tokenizer",
                 .problem = "no such file",
                 .remedy = "\"bytes\", a tokenizer.json or a folder with one"});
  }
  TokenizerFiles files;
  files.json = read_file(path, kMaxBytes);
  files.json_place = path;
  const Json json = parse_json(files.json, path);
  files.config_place = folder_of(path) + "tokenizer_config.json";
  if (is_file(files.config_place)) files.config = read_file(files.config_place, kMaxBytes);
  if (is_byte_tokenizer(json, path)) return std::make_unique<ByteTokenizer>(chat_template(files));
  return std::make_unique<SubwordTokenizer>(json, std::move(files));
}

}  // namespace ng
