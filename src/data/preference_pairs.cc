#include "data/preference_pairs.h"

#include <algorithm>
#include <cmath>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files.h"
#include "base/units.h"
#include "data/chat_markers.h"
#include "data/jsonl.h"
#include "data/text_files.h"

namespace ng {
namespace {

// What sequence `index` of a batch is put into.
BatchSpans part_of(const BatchSpans& batch, int64_t index, int64_t context) {
  const auto first = static_cast<size_t>(index * context), count = static_cast<size_t>(context);
  return {batch.inputs.subspan(first, count), batch.targets.subspan(first, count),
          batch.mask.subspan(first, count)};
}

void clear(const BatchSpans& out) {
  std::fill(out.inputs.begin(), out.inputs.end(), 0);
  std::fill(out.targets.begin(), out.targets.end(), 0);
  std::fill(out.mask.begin(), out.mask.end(), 0.0f);
}

std::string pairs_text(int64_t count) {
  return fmt::format("{} {}", count_text(count), count == 1 ? "pair" : "pairs");
}

void add_files(PreferencePairs& pairs, const std::vector<std::string>& names,
               const TextsPlace& where, const Tokenizer& tokenizer, const DocumentRules& rules) {
  for (const std::string& path : find_texts(names, where)) {
    if (!is_jsonl(path))
      throw Error({.place = where.place,
                   .key = where.key,
                   .problem = fmt::format("{} is no .jsonl file", path),
                   .remedy = "lines of {\"prompt\": ..., \"chosen\": ..., \"rejected\": ...}"});
    const MappedFile file(path);
    pairs.add(file.text(), path, tokenizer, rules);
  }
}

}  // namespace

PreferencePairs::Sequence PreferencePairs::take(const Document& document,
                                                const Tokenizer& tokenizer, const char* key,
                                                const std::string& place) {
  Sequence sequence{.first = std::ssize(tokens_.ids)};
  tokens_.add(tokens_of(document, tokenizer));
  sequence.count = std::ssize(tokens_.ids) - sequence.first;
  const auto begin = tokens_.is_target.begin() + sequence.first;
  sequence.prompt = std::find(begin, tokens_.is_target.end(), 1) - begin;
  if (sequence.prompt == sequence.count)
    throw Error({.place = place,
                 .key = key,
                 .problem = "no token begins in it",
                 .remedy = "a prompt that ends where a token does"});
  return sequence;
}

void PreferencePairs::add(std::string_view content, const std::string& path,
                          const Tokenizer& tokenizer, const DocumentRules& rules) {
  const DocumentRules known = rules_with(tokenizer, rules);
  const ChatMarkers markers(known, tokenizer);
  for_each_line(content, path, [&](std::string_view line, const std::string& place) {
    const Preference read = read_preference(line, known, tokenizer.bos(), place);
    markers.require(read.chosen, place);
    Pair pair{.chosen = take(read.chosen, tokenizer, "chosen", place),
              .rejected = take(read.rejected, tokenizer, "rejected", place),
              .place = place};
    pairs_.push_back(std::move(pair));
  });
}

int64_t PreferencePairs::excess(const Pair& pair, int64_t context) {
  const int64_t longest = std::max(pair.chosen.count, pair.rejected.count);
  return std::max<int64_t>(longest - (context + 1), 0);  // the last token is no input
}

void PreferencePairs::require_length(int64_t context) const {
  if (train_ == 0)
    throw Error({.place = place_,
                 .key = "data.train",
                 .problem = fmt::format("{}, none to train on", pairs_text(pairs())),
                 .remedy = "more pairs, or a smaller data.validation"});
  for (const Pair& pair : pairs_) {
    if (excess(pair, context) < std::min(pair.chosen.prompt, pair.rejected.prompt)) continue;
    const bool is_chosen = pair.chosen.count > pair.rejected.count;
    const Sequence& longest = is_chosen ? pair.chosen : pair.rejected;
    throw Error({.place = pair.place,
                 .key = is_chosen ? "chosen" : "rejected",
                 .problem = fmt::format("{} tokens", longest.count - longest.prompt),
                 .remedy = fmt::format("at most {}, so that one of the prompt is left in a context "
                                       "of {}",
                                       context, context)});
  }
}

std::vector<std::string> PreferencePairs::warnings(int64_t context) const {
  const auto shortened = std::count_if(pairs_.begin(), pairs_.end(),
                                       [&](const Pair& pair) { return excess(pair, context) > 0; });
  if (shortened == 0) return {};
  return {fmt::format("{} of {} lose the beginning of their prompt: they are longer than {} tokens",
                      count_text(shortened), pairs_text(pairs()), context + 1)};
}

std::string PreferencePairs::size_text() const {
  return fmt::format("{} to train on, {} to validate on", pairs_text(train_),
                     count_text(pairs() - train_));
}

std::string PreferencePairs::checksum() const {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(tokens_.ids)));
  checksum.add(std::as_bytes(std::span(tokens_.is_target)));
  for (const Pair& pair : pairs_) {
    const int64_t counts[] = {pair.chosen.count, pair.rejected.count};
    checksum.add(std::as_bytes(std::span(counts)));
  }
  checksum.add(std::as_bytes(std::span(&train_, 1)));
  return checksum.hex();
}

void PreferencePairs::put(const Pair& pair, bool chosen, const BatchSpans& out) const {
  clear(out);
  const Sequence& sequence = chosen ? pair.chosen : pair.rejected;
  const int64_t dropped = excess(pair, std::ssize(out.inputs));
  const auto first = static_cast<size_t>(sequence.first + dropped);
  const auto count = static_cast<size_t>(sequence.count - dropped - 1);
  std::copy_n(tokens_.ids.begin() + static_cast<int64_t>(first), count, out.inputs.begin());
  std::copy_n(tokens_.ids.begin() + static_cast<int64_t>(first) + 1, count, out.targets.begin());
  std::copy_n(tokens_.is_target.begin() + static_cast<int64_t>(first) + 1, count, out.mask.begin());
}

void PreferencePairs::train_batch(uint64_t seed, uint32_t step, SequenceRange range,
                                  BatchSpans out) const {
  require_sizes(range, out);
  for (int64_t i = 0; i < range.count; ++i) {
    const int64_t number = range.first + i;
    const int64_t pair = draw_place(seed, step, number / 2, train_);
    put(pairs_[static_cast<size_t>(pair)], number % 2 == 0, part_of(out, i, range.context));
  }
}

int64_t PreferencePairs::validation_windows(int64_t /* context */) const {
  return 2 * (pairs() - train_);
}

int64_t PreferencePairs::validation_batch(SequenceRange range, BatchSpans out) const {
  require_sizes(range, out);
  for (int64_t i = 0; i < range.count; ++i) {
    const int64_t number = range.first + i, pair = train_ + number / 2;
    const BatchSpans to = part_of(out, i, range.context);
    if (pair < pairs())
      put(pairs_[static_cast<size_t>(pair)], number % 2 == 0, to);
    else
      clear(to);
  }
  return count_targets(out.mask);
}

std::vector<int32_t> PreferencePairs::sample_prompt(uint64_t /* seed */, int64_t context) const {
  const Pair& pair = pairs_.front();
  const int64_t dropped = excess(pair, context);
  const auto begin = tokens_.ids.begin() + pair.chosen.first;
  return {begin + dropped, begin + pair.chosen.prompt};
}

PreferencePairs open_pairs(const DataConfig& config, const Tokenizer& tokenizer) {
  PreferencePairs pairs(config.place);
  add_files(pairs, config.train, {config.place, "data.train"}, tokenizer, config.rules.documents);
  if (config.validation.empty()) {
    const auto all = static_cast<double>(pairs.pairs());
    pairs.cut(pairs.pairs() - static_cast<int64_t>(std::floor(all * config.validation_share)));
    return pairs;
  }
  const int64_t train = pairs.pairs();
  pairs.cut(train);
  add_files(pairs, config.validation, {config.place, "data.validation"}, tokenizer,
            config.rules.documents);
  if (pairs.pairs() == train)
    throw Error({.place = config.place,
                 .key = "data.validation",
                 .problem = "its files hold no pair",
                 .remedy = "files with pairs, or 0 for none"});
  return pairs;
}

}  // namespace ng
