#include "data/texts.h"

#include <utility>

#include "base/files.h"
#include "data/byte_source.h"
#include "data/joined_source.h"
#include "data/jsonl.h"
#include "data/masked_tokens.h"
#include "data/memory_source.h"
#include "data/token_file_source.h"

namespace ng {
namespace {

std::unique_ptr<TokenSource> open_jsonl(const std::string& path, const Tokenizer& tokenizer,
                                        const DocumentRules& rules, const BytesRead& progress) {
  const MappedFile file(path);
  auto source = std::make_unique<MemorySource>(
      tokens_of_jsonl(file.text(), path, tokenizer, rules, progress), tokenizer);
  source->keep_documents();
  return source;
}

std::unique_ptr<TokenSource> open_plain_texts(const std::vector<std::string>& paths,
                                              const Tokenizer& tokenizer,
                                              const DocumentRules& rules,
                                              const BytesRead& progress) {
  if (tokenizer.ids_are_bytes()) return std::make_unique<ByteSource>(paths);
  return std::make_unique<MemorySource>(
      tokens_of_texts(paths, tokenizer, rules, {available_cores()}, progress), tokenizer);
}

int64_t bytes_of(const std::vector<std::string>& paths) {
  int64_t bytes = 0;
  for (const std::string& path : paths) bytes += static_cast<int64_t>(file_size(path));
  return bytes;
}

}  // namespace

BinaryMeans binary_for(const Tokenizer& tokenizer, const TextRules& rules) {
  if (rules.bare_uint16) return BinaryMeans::nothing;
  return tokenizer.ids_are_bytes() ? BinaryMeans::nul : BinaryMeans::no_utf8;
}

std::unique_ptr<TokenSource> open_texts(const std::vector<std::string>& paths,
                                        const Tokenizer& tokenizer, const TextRules& rules,
                                        const ReadProgress& progress) {
  const int64_t all = bytes_of(paths);
  int64_t done = 0;  // of the files that are open
  const auto shown = [&](int64_t read) {
    if (progress) progress(done + read, all);
  };
  std::vector<std::unique_ptr<TokenSource>> parts;
  std::vector<std::string> plain;  // neighbours, not yet opened
  const auto open_plain = [&] {
    if (plain.empty()) return;
    parts.push_back(open_plain_texts(plain, tokenizer, rules.documents, shown));
    done += bytes_of(std::exchange(plain, {}));
  };
  for (const std::string& path : paths) {
    const bool documents = is_jsonl(path);
    if (!documents && !rules.bare_uint16 && !is_token_file(path)) {
      plain.push_back(path);
      continue;
    }
    open_plain();
    if (documents)
      parts.push_back(open_jsonl(path, tokenizer, rules.documents, shown));
    else
      parts.push_back(std::make_unique<TokenFileSource>(path, rules.bare_uint16, tokenizer));
    done += bytes_of({path});
  }
  open_plain();
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<JoinedSource>(std::move(parts));
}

}  // namespace ng
