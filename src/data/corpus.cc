#include "data/corpus.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "data/text_files.h"
#include "data/texts.h"

namespace ng {
namespace {

/// Windows that cover every token of a piece but the first.
int64_t windows_of(const TextPiece& piece, int64_t context) {
  return (std::max<int64_t>(piece.count - 1, 0) + context - 1) / context;
}

/// Of the tokens of a sequence that begins at `first`: where in it their documents begin.
void read_first_keys(const TextPieces& source, int64_t first, std::span<int32_t> out) {
  std::vector<uint8_t> begins(out.size());
  source.read_begins(first, begins);
  int32_t begin = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (begins[i] != 0) begin = static_cast<int32_t>(i);
    out[i] = begin;
  }
}

/// All that there was to validate on: a text of its own, or what of one is not trained on.
TextPieces before_cut(const TextPieces& train, const TextPieces& validation) {
  const TokenSource& source = validation.source();
  std::vector<TextPiece> pieces;
  int64_t first = 0;
  if (&source == &train.source())
    for (const TextPiece& piece : train.pieces()) {
      if (piece.first > first) pieces.push_back({first, piece.first - first});
      first = piece.first + piece.count;
    }
  if (first < source.tokens()) pieces.push_back({first, source.tokens() - first});
  const std::shared_ptr<const TokenSource> borrowed(std::shared_ptr<void>(), &source);
  return {borrowed, std::move(pieces)};
}

}  // namespace

Corpus::Corpus(std::string place, TextPieces train, TextPieces validation)
    : place_(std::move(place)), train_(std::move(train)), validation_(std::move(validation)) {}

int64_t Corpus::train_targets() const { return train_.targets(); }

// Asked for once a validation, whose tokens take longer to go through a model than to be counted.
int64_t Corpus::validation_bytes() const { return validation_.bytes_within_pieces(); }

std::string Corpus::checksum_by(std::string (TokenSource::*of)() const) const {
  std::string text = (train_.source().*of)() + train_.places() + validation_.places();
  if (&validation_.source() != &train_.source()) text += (validation_.source().*of)();
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

Json Corpus::counts(DataPart part) const {
  return {{"tokens", part == DataPart::train ? train_tokens() : validation_tokens()}};
}

// A part that data.validation_tokens made short says little of its kind: all of its text does.
std::vector<int32_t> Corpus::some_tokens(DataPart part) const {
  constexpr int64_t kPieces = 256, kPiece = 4096;
  const TextPieces of = part == DataPart::train ? train_ : before_cut(train_, validation_);
  const int64_t all = of.tokens(), piece = std::min(all, kPiece);
  const int64_t pieces = all <= kPieces * kPiece ? 1 : kPieces;
  std::vector<int32_t> ids(static_cast<size_t>(pieces == 1 ? all : pieces * piece));
  const std::span<int32_t> out(ids);
  if (pieces == 1) {
    of.read(0, out);
    return ids;
  }
  for (int64_t i = 0; i < pieces; ++i)
    of.read((all - piece) / (pieces - 1) * i,
            out.subspan(static_cast<size_t>(i * piece), static_cast<size_t>(piece)));
  return ids;
}

void Corpus::require_length(int64_t context) const {
  const auto refuse = [&](const char* key, const char* part, const TextPieces& of,
                          std::string remedy) {
    throw Error({.place = place_,
                 .key = key,
                 .problem = fmt::format("{} for {}", counted(of.tokens(), "token"), part),
                 .remedy = std::move(remedy)});
  };
  if (train_.tokens() < context + 1)
    refuse("data.train", "training", train_,
           fmt::format("at least {} for sequences of {}: a longer text, or a smaller train.length",
                       context + 1, context));
  if (validation_.tokens() == 1)
    refuse("data.validation", "validation", validation_,
           "at least 2, of which the second is predicted: a larger part, or 0 for none");
  require_targets(train_, train_.targets(), "data.train");
  if (has_validation())
    require_targets(validation_, validation_.targets_within_pieces(), "data.validation");
}

void Corpus::require_targets(const TextPieces& part, int64_t targets, const char* key) const {
  if (targets > 0) return;
  throw Error(
      {.place = place_,
       .key = key,
       .problem = fmt::format("none of its {} is a target", counted(part.tokens(), "token")),
       .remedy = "completions, or messages of an assistant"});
}

std::vector<std::string> Corpus::warnings(int64_t context) const {
  const auto blocks = std::ssize(validation_.pieces());
  if (blocks < 2 || validation_.tokens() > blocks * context) return {};
  return {fmt::format(
      "{} to validate on have {} tokens each, no more than a sequence of {}: "
      "{}data.validation_split = \"tail\" keeps one long part",
      counted(blocks, "block"), count_text(validation_.tokens() / blocks), context,
      whole_block_ > context ? "a larger data.validation_tokens makes them longer, " : "")};
}

void Corpus::train_batch(uint64_t seed, uint32_t step, SequenceRange range, BatchSpans out) const {
  require_sizes(range, out);
  const int64_t places = train_.tokens() - range.context;
  NG_CHECK(places >= 1, train_.tokens(), range.context);
  for (int64_t i = 0; i < range.count; ++i) {
    const int64_t first = draw_place(seed, step, range.first + i, places);
    const size_t at = static_cast<size_t>(i * range.context);
    const size_t context = static_cast<size_t>(range.context);
    train_.read(first, out.inputs.subspan(at, context));
    train_.read(first + 1, out.targets.subspan(at, context));
    train_.read_mask(first + 1, out.mask.subspan(at, context));
    if (!out.first_keys.empty())
      read_first_keys(train_, first, out.first_keys.subspan(at, context));
  }
}

int64_t Corpus::validation_windows(int64_t context) const {
  NG_CHECK(context >= 1, context);
  int64_t windows = 0;
  for (const TextPiece& piece : validation_.pieces()) windows += windows_of(piece, context);
  return windows;
}

Corpus::Window Corpus::window(int64_t number, int64_t context) const {
  int64_t begin = 0;
  for (const TextPiece& piece : validation_.pieces()) {
    const int64_t windows = windows_of(piece, context);
    if (number < windows) {
      const int64_t all = piece.count - 1, own = number * context;
      const bool reaches_back = fills_last_ && context < all;
      const int64_t first = reaches_back ? std::min(own, all - context) : own;
      return {.first = begin + first,
              .targets = std::min(context, all - first),
              .uncounted = own - first};
    }
    number -= windows;
    begin += piece.count;
  }
  return {};
}

int64_t Corpus::validation_batch(SequenceRange range, BatchSpans out) const {
  require_sizes(range, out);
  for (int64_t i = 0; i < range.count; ++i) {
    const Window from = window(range.first + i, range.context);
    const auto targets = static_cast<size_t>(from.targets);
    const size_t at = static_cast<size_t>(i * range.context);
    const size_t context = static_cast<size_t>(range.context);
    const std::span<int32_t> inputs = out.inputs.subspan(at, context);
    const std::span<int32_t> next = out.targets.subspan(at, context);
    const std::span<float> mask = out.mask.subspan(at, context);
    if (targets > 0) {
      validation_.read(from.first, inputs.first(targets));
      validation_.read(from.first + 1, next.first(targets));
      validation_.read_mask(from.first + 1, mask.first(targets));
      std::fill_n(mask.begin(), from.uncounted, 0.0f);
    }
    if (!out.first_keys.empty()) {
      const std::span<int32_t> keys = out.first_keys.subspan(at, context);
      read_first_keys(validation_, from.first, keys.first(targets));
      const int32_t last = targets == 0 ? 0 : keys[targets - 1];
      std::fill(keys.begin() + from.targets, keys.end(), last);
    }
    std::fill(inputs.begin() + from.targets, inputs.end(), 0);
    std::fill(next.begin() + from.targets, next.end(), 0);
    std::fill(mask.begin() + from.targets, mask.end(), 0.0f);
  }
  return count_targets(out.mask);
}

std::vector<int32_t> Corpus::sample_prompt(uint64_t seed, int64_t context) const {
  constexpr int64_t kTokens = 16;
  context = std::min(context, train_.tokens() - 1);  // it may be longer than what was trained on
  std::vector<int32_t> inputs(static_cast<size_t>(context)), targets(inputs);
  std::vector<float> mask(inputs.size());
  train_batch(seed, 0, {.first = 0, .count = 1, .context = context},
              {.inputs = inputs, .targets = targets, .mask = mask});
  inputs.resize(static_cast<size_t>(std::min(kTokens, context)));
  return inputs;
}

namespace {

/// Texts under a key of [data], opened.
struct OpenedTexts {
  FoundTexts files;
  std::shared_ptr<const TokenSource> source;
};

OpenedTexts open_key(const std::vector<std::string>& names, const TextsPlace& where,
                     const Tokenizer& tokenizer, const TextRules& rules,
                     const ReadProgress& progress) {
  OpenedTexts opened{find_texts(names, where, binary_for(tokenizer, rules)), nullptr};
  opened.source = open_texts(opened.files.paths(), tokenizer, rules, progress);
  if (opened.source->tokens() == 0) {
    throw Error({.place = opened.files.read.front().path,
                 .key = where.key,
                 .problem = "the text is empty",
                 .remedy = "name a text to read"});
  }
  return opened;
}

void require_share(const DataConfig& config) {
  if (config.validation_share >= 0.0 && config.validation_share < 1.0) return;
  throw Error({.place = config.place,
               .key = "data.validation",
               .problem = fmt::format("{}", config.validation_share),
               .remedy = "a share from 0 to below 1, or a file"});
}

Corpus split_corpus(const DataConfig& config, OpenedTexts train) {
  require_share(config);
  SplitText parts = split_text(*train.source, config.validation_share, config.validation_split);
  const int64_t kept = parts.validation.front().count;
  const auto blocks = std::ssize(parts.validation);
  int64_t whole = 0;
  for (const TextPiece& block : parts.validation) whole += block.count;
  Corpus corpus(config.place, {train.source, std::move(parts.train)},
                {train.source, shortened(std::move(parts.validation), config.validation_tokens)});
  corpus.set_whole_block(whole / blocks);
  corpus.set_origin(
      {.train = std::move(train.files),
       .from = kept > 0 ? origin_of(config.validation_split) : ValidationFrom::nothing,
       .blocks = kept > 0 ? corpus.validation_pieces() : 0});
  return corpus;
}

}  // namespace

Corpus open_corpus(const DataConfig& config, const Tokenizer& tokenizer,
                   const ReadProgress& progress) {
  const auto open = [&](const std::vector<std::string>& names, const char* key,
                        const std::string& folder) {
    return open_key(names, {config.place, key, folder}, tokenizer, config.rules, progress);
  };
  OpenedTexts train = open(config.train, "data.train", config.train_folder);
  if (config.validation.empty()) return split_corpus(config, std::move(train));
  OpenedTexts validation = open(config.validation, "data.validation", config.validation_folder);
  const TextPiece all{0, validation.source->tokens()};
  Corpus corpus(config.place, {train.source, {{0, train.source->tokens()}}},
                {validation.source, shortened({all}, config.validation_tokens)});
  corpus.set_origin({.train = std::move(train.files),
                     .validation = std::move(validation.files),
                     .from = ValidationFrom::files,
                     .blocks = 1});
  return corpus;
}

}  // namespace ng
