#include "data/masked_tokens.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/files.h"
#include "data/chat_markers.h"
#include "data/jsonl.h"

namespace ng {
namespace {

/// Whether each token's first byte lies in one of the spans, both ascending.
std::vector<uint8_t> mask_of(const std::vector<int64_t>& starts,
                             const std::vector<TextSpan>& spans) {
  std::vector<uint8_t> mask;
  mask.reserve(starts.size());
  auto span = spans.begin();
  for (const int64_t start : starts) {
    const auto at = static_cast<size_t>(start);
    while (span != spans.end() && span->last <= at) ++span;
    mask.push_back(span != spans.end() && span->first <= at ? 1 : 0);
  }
  return mask;
}

/// Puts before a text what the tokenizer says, which is no target.
void begin_text(const Tokenizer& tokenizer, MaskedTokens* tokens) {
  const std::span<const int32_t> begin = tokenizer.begin_of(tokens->ids);
  tokens->ids.insert(tokens->ids.begin(), begin.begin(), begin.end());
  tokens->is_target.insert(tokens->is_target.begin(), begin.size(), 0);
}

/// A line of a file, and what became of it.
struct Line {
  std::string_view text;
  std::string place;
  Document document = {};
  MaskedTokens tokens = {};
  std::exception_ptr failure = {};  ///< instead of tokens

  void read(const Tokenizer& tokenizer, const DocumentRules& rules, const ChatMarkers& markers,
            EndToken end) noexcept {
    try {
      document = read_document(text, rules, tokenizer.bos(), place);
      markers.require(document, place);
      tokens = tokens_of(document, tokenizer, end);
      const bool is_chat = document.kind == DocumentKind::chat;
      if (rules.begin == TextBegin::as_the_tokenizer_says && !is_chat)
        begin_text(tokenizer, &tokens);
    } catch (...) {
      failure = std::current_exception();
    }
  }
};

/// Each thread encodes a few parts of the text before their tokens join the others.
std::vector<int32_t> ids_of_text(std::string_view text, const Tokenizer& tokenizer,
                                 SpecialTokens special, Threads threads,
                                 const BytesRead& progress) {
  constexpr size_t kPart = 1 << 20, kPartsOfThread = 4;
  const std::vector<std::string_view> parts = tokenizer.separate_parts(text, kPart);
  const size_t wave = kPartsOfThread * static_cast<size_t>(threads.count);
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4);  // of most texts
  for (size_t first = 0; first < parts.size(); first += wave) {
    std::vector<std::vector<int32_t>> encoded(std::min(wave, parts.size() - first));
    parallel_for(threads, std::ssize(encoded), [&](int64_t i, int) {
      encoded[static_cast<size_t>(i)] =
          tokenizer.encode(parts[first + static_cast<size_t>(i)], special);
    });
    for (const std::vector<int32_t>& more : encoded)
      ids.insert(ids.end(), more.begin(), more.end());
    const std::string_view last = parts[first + encoded.size() - 1];
    progress(last.data() + last.size() - text.data());
  }
  return ids;
}

}  // namespace

DocumentRules rules_with(const Tokenizer& tokenizer, DocumentRules rules) {
  if (rules.chat != ChatTemplate::none) return rules;
  rules.chat = chat_template_of(tokenizer.chat_template());
  rules.has_own_chat = rules.chat == ChatTemplate::none && !tokenizer.chat_template().empty();
  return rules;
}

void MaskedTokens::add(const MaskedTokens& more) {
  if (!more.ids.empty()) begins.push_back(std::ssize(ids));
  ids.insert(ids.end(), more.ids.begin(), more.ids.end());
  is_target.insert(is_target.end(), more.is_target.begin(), more.is_target.end());
}

MaskedTokens tokens_of(const Document& document, const Tokenizer& tokenizer, EndToken end) {
  PlacedTokens placed = tokenizer.encode_with_starts(document.text, document.special);
  MaskedTokens tokens{.ids = std::move(placed.ids),
                      .is_target = mask_of(placed.starts, document.targets)};
  const std::optional<int32_t> last = tokenizer.end_token();
  if (document.ends() && last && end == EndToken::as_the_kind_says) {
    tokens.ids.push_back(*last);
    tokens.is_target.push_back(1);
  }
  return tokens;
}

void for_each_document(
    std::string_view content, const std::string& path, const Tokenizer& tokenizer,
    const DocumentRules& rules, EndToken end, Threads threads,
    const std::function<void(const Document&, const MaskedTokens&, size_t done)>& f) {
  constexpr size_t kLines = 256, kBytes = 4 << 20;  // tokenized before f sees the first
  const DocumentRules known = rules_with(tokenizer, rules);
  const ChatMarkers markers(known, tokenizer);
  std::vector<Line> lines;
  size_t bytes = 0;
  const auto hand_over = [&] {
    parallel_for(threads, std::ssize(lines), [&](int64_t i, int) {
      lines[static_cast<size_t>(i)].read(tokenizer, known, markers, end);
    });
    for (const Line& line : lines) {  // so that of several errors the first line's is said
      if (line.failure) std::rethrow_exception(line.failure);
      const char* const behind = line.text.data() + line.text.size();
      f(line.document, line.tokens, static_cast<size_t>(behind - content.data()));
    }
    lines.clear();
    bytes = 0;
  };
  for_each_line(content, path, [&](std::string_view text, const std::string& place) {
    lines.push_back({.text = text, .place = place});
    bytes += text.size();
    if (lines.size() == kLines || bytes >= kBytes) hand_over();
  });
  hand_over();
}

MaskedTokens tokens_of_jsonl(std::string_view content, const std::string& path,
                             const Tokenizer& tokenizer, const DocumentRules& rules,
                             const BytesRead& progress) {
  MaskedTokens all;
  for_each_document(content, path, tokenizer, rules, EndToken::as_the_kind_says,
                    {.count = available_cores()},
                    [&](const Document&, const MaskedTokens& tokens, size_t done) {
                      all.add(tokens);
                      if (progress) progress(static_cast<int64_t>(done));
                    });
  return all;
}

MaskedTokens tokens_of_texts(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                             const DocumentRules& rules, Threads threads,
                             const BytesRead& progress) {
  MaskedTokens tokens;
  int64_t done = 0;
  for (const std::string& path : paths) {
    const MappedFile file(path);
    MaskedTokens text{.ids = ids_of_text(file.text(), tokenizer, rules.special, threads,
                                         [&](int64_t read) {
                                           if (progress) progress(done + read);
                                         }),
                      .is_target = {}};
    text.is_target.assign(text.ids.size(), 1);
    if (rules.begin == TextBegin::as_the_tokenizer_says) begin_text(tokenizer, &text);
    tokens.add(text);
    done += std::ssize(file.bytes());
  }
  return tokens;
}

}  // namespace ng
