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

/// Files with what they are read by, and how far that has come.
class Opening {
 public:
  Opening(const std::vector<std::string>& paths, const Tokenizer& tokenizer, const TextRules& rules,
          const ReadProgress& progress)
      : tokenizer_(tokenizer), rules_(rules), progress_(progress) {
    for (const std::string& path : paths) all_ += bytes_of(path);
  }

  [[nodiscard]] std::unique_ptr<TokenSource> jsonl(const std::string& path) {
    const MappedFile file(path);
    auto source = std::make_unique<MemorySource>(
        tokens_of_jsonl(file.text(), path, tokenizer_, rules_.documents, shown()), tokenizer_);
    done_ += bytes_of(path);
    return source;
  }

  [[nodiscard]] std::unique_ptr<TokenSource> token_file(const std::string& path) {
    auto source = std::make_unique<TokenFileSource>(path, rules_.bare_uint16, tokenizer_, shown());
    done_ += bytes_of(path);
    return source;
  }

  [[nodiscard]] std::unique_ptr<TokenSource> plain_texts(const std::vector<std::string>& paths) {
    std::unique_ptr<TokenSource> source;
    if (tokenizer_.ids_are_bytes())
      source = std::make_unique<ByteSource>(paths);
    else
      source = std::make_unique<MemorySource>(
          tokens_of_texts(paths, tokenizer_, rules_.documents.special, {available_cores()},
                          shown()),
          tokenizer_);
    for (const std::string& path : paths) done_ += bytes_of(path);
    return source;
  }

 private:
  static int64_t bytes_of(const std::string& path) { return static_cast<int64_t>(file_size(path)); }

  /// What hears of the bytes of the next files.
  [[nodiscard]] BytesRead shown() const {
    return [this](int64_t done) {
      if (progress_) progress_(done_ + done, all_);
    };
  }

  const Tokenizer& tokenizer_;
  const TextRules& rules_;
  const ReadProgress& progress_;
  int64_t done_ = 0, all_ = 0;
};

}  // namespace

std::unique_ptr<TokenSource> open_texts(const std::vector<std::string>& paths,
                                        const Tokenizer& tokenizer, const TextRules& rules,
                                        const ReadProgress& progress) {
  Opening opening(paths, tokenizer, rules, progress);
  std::vector<std::unique_ptr<TokenSource>> parts;
  std::vector<std::string> plain;  // neighbours, not yet opened
  const auto open_plain = [&] {
    if (!plain.empty()) parts.push_back(opening.plain_texts(std::exchange(plain, {})));
  };
  for (const std::string& path : paths) {
    const bool documents = is_jsonl(path);
    if (!documents && !rules.bare_uint16 && !is_token_file(path)) {
      plain.push_back(path);
      continue;
    }
    open_plain();
    parts.push_back(documents ? opening.jsonl(path) : opening.token_file(path));
  }
  open_plain();
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<JoinedSource>(std::move(parts));
}

}  // namespace ng
