#include "data/preference_pairs.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/units.h"
#include "data/chat_markers.h"
#include "data/jsonl.h"
#include "data/text_files.h"
#include "data/validation_split.h"

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

FoundTexts add_files(PreferencePairs& pairs, const std::vector<std::string>& names,
                     const TextsPlace& where, const Tokenizer& tokenizer,
                     const DocumentRules& rules) {
  FoundTexts found = find_texts(names, where, BinaryMeans::nothing);
  for (const TextFile& named : found.read) {
    if (!is_jsonl(named.path))
      throw Error({.place = where.place,
                   .key = where.key,
                   .problem = fmt::format("{} is no .jsonl file", named.path),
                   .remedy = "lines of {\"prompt\": ..., \"chosen\": ..., \"rejected\": ...}"});
    const MappedFile file(named.path);
    pairs.add(file.text(), named.path, tokenizer, rules);
  }
  return found;
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

void PreferencePairs::cut_spread(int64_t count) {
  const std::vector<int64_t> taken = spread_items(pairs(), count);
  std::vector<Pair> train, validation;
  for (int64_t i = 0; i < pairs(); ++i) {
    const bool validates = std::binary_search(taken.begin(), taken.end(), i);
    (validates ? validation : train).push_back(std::move(pairs_[static_cast<size_t>(i)]));
  }
  cut(std::ssize(train));
  pairs_ = std::move(train);
  std::move(validation.begin(), validation.end(), std::back_inserter(pairs_));
}

Json PreferencePairs::counts(DataPart part) const {
  return {{"pairs", part == DataPart::train ? train_ : pairs() - train_}};
}

std::vector<int32_t> PreferencePairs::some_tokens(DataPart part) const {
  constexpr size_t kTokens = size_t{1} << 20;
  const bool trains = part == DataPart::train;
  const auto first = static_cast<size_t>(trains ? 0 : train_);
  const auto last = static_cast<size_t>(trains ? train_ : pairs());
  const size_t every = 1 + tokens_.ids.size() / kTokens;
  std::vector<int32_t> ids;
  for (size_t i = first; i < last; i += every)
    for (const Sequence& sequence : {pairs_[i].chosen, pairs_[i].rejected}) {
      const auto begin = tokens_.ids.begin() + sequence.first;
      ids.insert(ids.end(), begin, begin + sequence.count);
    }
  return ids;
}

PreferencePairs open_pairs(const DataConfig& config, const Tokenizer& tokenizer) {
  PreferencePairs pairs(config.place);
  DataOrigin origin{.train = add_files(pairs, config.train,
                                       {config.place, "data.train", config.train_folder}, tokenizer,
                                       config.rules.documents)};
  const int64_t all = pairs.pairs();
  if (config.validation.empty()) {
    const auto last =
        static_cast<int64_t>(std::floor(static_cast<double>(all) * config.validation_share));
    if (config.validation_split == ValidationSplit::spread)
      pairs.cut_spread(last);
    else
      pairs.cut(all - last);
    if (last > 0) origin.from = origin_of(config.validation_split);
    pairs.set_origin(std::move(origin));
    return pairs;
  }
  pairs.cut(all);
  origin.from = ValidationFrom::files;
  origin.validation = add_files(pairs, config.validation,
                                {config.place, "data.validation", config.validation_folder},
                                tokenizer, config.rules.documents);
  pairs.set_origin(std::move(origin));
  if (pairs.pairs() == all)
    throw Error({.place = config.place,
                 .key = "data.validation",
                 .problem = "its files hold no pair",
                 .remedy = "files with pairs, or 0 for none"});
  return pairs;
}

}  // namespace ng
