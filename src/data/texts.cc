#include "data/texts.h"

#include <utility>

#include "base/files.h"
#include "data/byte_source.h"
#include "data/joined_source.h"
#include "data/jsonl_lines.h"
#include "data/masked_tokens.h"
#include "data/memory_source.h"
#include "data/token_file_source.h"

namespace ng {
namespace {

std::unique_ptr<TokenSource> open_jsonl(const std::string& path, const Tokenizer& tokenizer,
                                        const DocumentRules& rules) {
  const MappedFile file(path);
  return std::make_unique<MemorySource>(tokens_of_jsonl(text_of(file), path, tokenizer, rules),
                                        tokenizer);
}

std::unique_ptr<TokenSource> open_plain_texts(const std::vector<std::string>& paths,
                                              const Tokenizer& tokenizer) {
  if (tokenizer.ids_are_bytes()) return std::make_unique<ByteSource>(paths);
  return std::make_unique<MemorySource>(tokens_of_texts(paths, tokenizer), tokenizer);
}

}  // namespace

std::unique_ptr<TokenSource> open_texts(const std::vector<std::string>& paths,
                                        const Tokenizer& tokenizer, const TextRules& rules) {
  std::vector<std::unique_ptr<TokenSource>> parts;
  std::vector<std::string> plain;  // neighbours, not yet opened
  const auto open_plain = [&] {
    if (!plain.empty()) parts.push_back(open_plain_texts(std::exchange(plain, {}), tokenizer));
  };
  for (const std::string& path : paths) {
    const bool documents = is_jsonl(path);
    if (!documents && !rules.bare_uint16 && !is_token_file(path)) {
      plain.push_back(path);
      continue;
    }
    open_plain();
    parts.push_back(documents
                        ? open_jsonl(path, tokenizer, rules.documents)
                        : std::make_unique<TokenFileSource>(path, rules.bare_uint16, tokenizer));
  }
  open_plain();
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<JoinedSource>(std::move(parts));
}

}  // namespace ng
