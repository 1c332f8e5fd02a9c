#include "data/corpus.h"

#include <algorithm>
#include <cmath>

#include "base/checksum.h"
#include "base/error.h"
#include "base/units.h"
#include "data/text_files.h"
#include "data/texts.h"

namespace ng {
namespace {

std::shared_ptr<const TokenSource> open_part(const std::vector<std::string>& names,
                                             const TextsPlace& where, const Tokenizer& tokenizer,
                                             const TextRules& rules, const ReadProgress& progress) {
  const std::vector<std::string> paths = find_texts(names, where);
  std::shared_ptr<const TokenSource> source = open_texts(paths, tokenizer, rules, progress);
  if (source->tokens() == 0) {
    throw Error({.place = paths.front(),
                 .key = where.key,
                 .problem = "the text is empty",
                 .remedy = "name a text to read"});
  }
  return source;
}

/// How many tokens of a range but its first, which no token predicts, are targets.
int64_t targets_of(const TokenRange& range) {
  if (range.count < 2) return 0;
  return range.source->target_tokens(range.first + 1, range.count - 1);
}

/// Of the tokens of a sequence that begins at `first`: where in it their documents begin.
void read_first_keys(const TokenSource& source, int64_t first, std::span<int32_t> out) {
  std::vector<uint8_t> begins(out.size());
  source.read_begins(first, begins);
  int32_t begin = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (begins[i] != 0) begin = static_cast<int32_t>(i);
    out[i] = begin;
  }
}

}  // namespace

Corpus::Corpus(std::string place, TokenRange train, TokenRange validation)
    : place_(std::move(place)), train_(std::move(train)), validation_(std::move(validation)) {}

int64_t Corpus::train_targets() const { return targets_of(train_); }

// Asked for once a validation, whose tokens take longer to go through a model than to be counted.
int64_t Corpus::validation_bytes() const {
  if (validation_.count < 2) return 0;
  return validation_.source->target_bytes(validation_.first + 1, validation_.count - 1);
}

std::string Corpus::checksum_by(std::string (TokenSource::*of)() const) const {
  std::string text = fmt::format("{} {} {} {} {}", (*train_.source.*of)(), train_.first,
                                 train_.count, validation_.first, validation_.count);
  if (validation_.source != nullptr && validation_.source != train_.source)
    text += (*validation_.source.*of)();
  return checksum_of(std::as_bytes(std::span(text)));
}

std::string Corpus::checksum() const { return checksum_by(&TokenSource::checksum); }

std::string Corpus::older_checksum() const { return checksum_by(&TokenSource::older_checksum); }

std::string Corpus::size_text() const {
  std::string targets;
  if (has_mask()) targets = fmt::format(" ({} targets)", count_text(train_targets()));
  return fmt::format("{} tokens to train on{}, {} to validate on", count_text(train_tokens()),
                     targets, count_text(validation_tokens()));
}

void Corpus::require_length(int64_t context) const {
  const auto refuse = [&](const char* key, const char* part, const TokenRange& range,
                          std::string remedy) {
    throw Error({.place = place_,
                 .key = key,
                 .problem = fmt::format("{} for {}", counted(range.count, "token"), part),
                 .remedy = std::move(remedy)});
  };
  if (train_.count < context + 1)
    refuse("data.train", "training", train_,
           fmt::format("at least {} for sequences of {}: a longer text, or a smaller train.length",
                       context + 1, context));
  if (validation_.count == 1)
    refuse("data.validation", "validation", validation_,
           "at least 2, of which the second is predicted: a larger part, or 0 for none");
  require_targets(train_, "data.train");
  if (validation_.count > 0) require_targets(validation_, "data.validation");
}

void Corpus::require_targets(const TokenRange& range, const char* key) const {
  if (targets_of(range) > 0) return;
  throw Error({.place = place_,
               .key = key,
               .problem = fmt::format("none of its {} is a target", counted(range.count, "token")),
               .remedy = "completions, or messages of an assistant"});
}

void Corpus::train_batch(uint64_t seed, uint32_t step, SequenceRange range, BatchSpans out) const {
  require_sizes(range, out);
  const int64_t places = train_.count - range.context;
  NG_CHECK(places >= 1, train_.count, range.context);
  for (int64_t i = 0; i < range.count; ++i) {
    const int64_t first = train_.first + draw_place(seed, step, range.first + i, places);
    const size_t at = static_cast<size_t>(i * range.context);
    const size_t context = static_cast<size_t>(range.context);
    train_.source->read(first, out.inputs.subspan(at, context));
    train_.source->read(first + 1, out.targets.subspan(at, context));
    train_.source->read_mask(first + 1, out.mask.subspan(at, context));
    if (!out.first_keys.empty())
      read_first_keys(*train_.source, first, out.first_keys.subspan(at, context));
  }
}

int64_t Corpus::validation_windows(int64_t context) const {
  NG_CHECK(context >= 1, context);
  const int64_t targets = std::max<int64_t>(validation_.count - 1, 0);
  return (targets + context - 1) / context;
}

int64_t Corpus::validation_batch(SequenceRange range, BatchSpans out) const {
  require_sizes(range, out);
  const int64_t all_targets = std::max<int64_t>(validation_.count - 1, 0);
  for (int64_t i = 0; i < range.count; ++i) {
    const int64_t own = std::min((range.first + i) * range.context, all_targets);
    const bool reaches_back = fills_last_ && own < all_targets && range.context < all_targets;
    const int64_t begin = reaches_back ? std::min(own, all_targets - range.context) : own;
    const size_t targets = static_cast<size_t>(std::min(range.context, all_targets - begin));
    const size_t at = static_cast<size_t>(i * range.context);
    const size_t context = static_cast<size_t>(range.context);
    const std::span<int32_t> inputs = out.inputs.subspan(at, context);
    const std::span<int32_t> next = out.targets.subspan(at, context);
    const std::span<float> mask = out.mask.subspan(at, context);
    if (targets > 0) {
      validation_.source->read(validation_.first + begin, inputs.first(targets));
      validation_.source->read(validation_.first + begin + 1, next.first(targets));
      validation_.source->read_mask(validation_.first + begin + 1, mask.first(targets));
      std::fill_n(mask.begin(), own - begin, 0.0f);
    }
    if (!out.first_keys.empty()) {
      const std::span<int32_t> keys = out.first_keys.subspan(at, context);
      read_first_keys(*validation_.source, validation_.first + begin, keys.first(targets));
      const int32_t last = targets == 0 ? 0 : keys[targets - 1];
      std::fill(keys.begin() + static_cast<int64_t>(targets), keys.end(), last);
    }
    std::fill(inputs.begin() + static_cast<int64_t>(targets), inputs.end(), 0);
    std::fill(next.begin() + static_cast<int64_t>(targets), next.end(), 0);
    std::fill(mask.begin() + static_cast<int64_t>(targets), mask.end(), 0.0f);
  }
  return count_targets(out.mask);
}

std::vector<int32_t> Corpus::sample_prompt(uint64_t seed, int64_t context) const {
  constexpr int64_t kTokens = 16;
  context = std::min(context, train_.count - 1);  // it may be longer than what was trained on
  std::vector<int32_t> inputs(static_cast<size_t>(context)), targets(inputs);
  std::vector<float> mask(inputs.size());
  train_batch(seed, 0, {.first = 0, .count = 1, .context = context},
              {.inputs = inputs, .targets = targets, .mask = mask});
  inputs.resize(static_cast<size_t>(std::min(kTokens, context)));
  return inputs;
}

namespace {

TokenRange at_most(TokenRange range, int64_t tokens) {
  if (tokens > 0) range.count = std::min(range.count, tokens);
  return range;
}

}  // namespace

Corpus open_corpus(const DataConfig& config, const Tokenizer& tokenizer,
                   const ReadProgress& progress) {
  const auto open = [&](const std::vector<std::string>& names, const char* key) {
    return open_part(names, {config.place, key}, tokenizer, config.rules, progress);
  };
  const auto train = open(config.train, "data.train");
  const int64_t all = train->tokens();
  if (!config.validation.empty()) {
    const auto validation = open(config.validation, "data.validation");
    return {config.place,
            {train, 0, all},
            at_most({validation, 0, validation->tokens()}, config.validation_tokens)};
  }
  if (!(config.validation_share >= 0.0 && config.validation_share < 1.0)) {
    throw Error({.place = config.place,
                 .key = "data.validation",
                 .problem = fmt::format("{}", config.validation_share),
                 .remedy = "a share from 0 to below 1, or a file"});
  }
  const int64_t last =
      static_cast<int64_t>(std::floor(static_cast<double>(all) * config.validation_share));
  return {config.place,
          {train, 0, all - last},
          at_most({train, all - last, last}, config.validation_tokens)};
}

}  // namespace ng
