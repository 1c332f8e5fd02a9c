#include "tokenizer/tokenizer.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/subword_tokenizer.h"
#include "tokenizer/tokenizer_folder.h"

namespace ng {
namespace {

// Other files than its own, damaged ones too, are for SubwordTokenizer to read or to refuse.
bool is_byte_tokenizer(const Json& json, const std::string& path) {
  try {
    require_byte_tokenizer(json, path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

NamedTemplates chat_templates(const TokenizerFiles& files) {
  const Json settings = tokenizer_settings(files);
  return chat_templates_in(JsonObject(settings, files.config_place));
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  const std::string path = is_folder(name) ? join_path(name, kTokenizerJson) : name;
  if (!is_file(path)) {
    throw Error({.place = path,
                 .key = "tokenizer",
                 .problem = "no such file",
                 .remedy = "\"bytes\", a tokenizer.json or a folder with one"});
  }
  TokenizerFiles files = read_tokenizer_files(path);
  const Json json = parse_json(files.json, path);
  if (is_byte_tokenizer(json, path)) return std::make_unique<ByteTokenizer>(chat_templates(files));
  return std::make_unique<SubwordTokenizer>(json, std::move(files));
}

}  // namespace ng
