#include "tokenizer/tokenizer.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name) {
  constexpr size_t kMaxBytes = 64 << 20;
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  const std::string path = is_folder(name) ? join_path(name, "tokenizer.json") : name;
  if (!is_file(path)) {
    throw Error({.place = path,
                 .key = "tokenizer",
                 .problem = "no such file",
                 .remedy = "\"bytes\", a tokenizer.json or a folder with one"});
  }
  require_byte_tokenizer(read_json_file(path, kMaxBytes), path);
  return std::make_unique<ByteTokenizer>();
}

}  // namespace ng
