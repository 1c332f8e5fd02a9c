#include "tokenizer/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/byte_names.h"
#include "tokenizer/known_patterns.h"
#include "tokenizer/piece_counts.h"
#include "tokenizer/tokenizer_parts.h"

namespace ng {
namespace {

constexpr int64_t kShowEvery = 256;  // merges

/// A piece as tokens that become fewer.
struct Word {
  size_t begin;  ///< in Trainer::tokens_
  uint32_t tokens;
  int64_t times;
};

/// Two ids as one number that orders as they do.
using Pair = uint64_t;
Pair pair_of(int32_t left, int32_t right) {
  return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
}

/// A pair that may become a token, and words that it was met in. [tokenizers, bpe/trainer.rs]
struct Candidate {
  int64_t count;
  Pair pair;
  std::vector<uint32_t> words;

  /// The largest count comes first, among equals the smallest pair.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Trainer {
 public:
  Trainer(const PieceCounts& pieces, const BpeTraining& training) : training_(training) {
    for (const std::string& token : training.special_tokens) id_of(token);
    std::vector<std::string> bytes(byte_names().begin(), byte_names().end());
    std::sort(bytes.begin(), bytes.end());  // as their code points are ordered
    for (const std::string& name : bytes) id_of(name);
    if (training.vocab < static_cast<int64_t>(trained_.names.size()))
      throw Error({.key = "vocab",
                   .problem = fmt::format("{}", training.vocab),
                   .remedy = fmt::format("at least {}: special tokens and the 256 bytes",
                                         trained_.names.size())});
    add_words(pieces);
  }

  TrainedBpe train(const std::function<void(int64_t, int64_t)>& show) {
    const auto first = static_cast<int64_t>(trained_.names.size());
    push_new();
    for (int64_t steps = 0; static_cast<int64_t>(trained_.names.size()) < training_.vocab;
         ++steps) {
      if (queue_.empty()) break;
      if (steps % kShowEvery == 0)
        show(static_cast<int64_t>(trained_.names.size()) - first, training_.vocab - first);
      Candidate best = pop();
      const int64_t count = counts_[best.pair];
      if (best.count != count) {
        best.count = count;
        push(std::move(best));
        continue;
      }
      if (count < 1 || count < training_.min_frequency) break;
      merge(best);
    }
    return std::move(trained_);
  }

 private:
  int32_t id_of(const std::string& name) {
    const auto [found, is_new] = ids_.emplace(name, int32_t(trained_.names.size()));
    if (is_new) trained_.names.push_back(name);
    return found->second;
  }

  void add_words(const PieceCounts& pieces) {
    std::vector<int32_t> of_byte;
    for (const std::string& name : byte_names()) of_byte.push_back(id_of(name));
    for (const auto& [piece, times] : pieces) {
      const size_t begin = tokens_.size();
      for (char c : piece) tokens_.push_back(of_byte[static_cast<uint8_t>(c)]);
      const auto word = static_cast<uint32_t>(words_.size());
      words_.push_back({begin, static_cast<uint32_t>(piece.size()), times});
      for (size_t i = begin; i + 1 < tokens_.size(); ++i)
        count(pair_of(tokens_[i], tokens_[i + 1]), 1, word);
    }
  }

  void count(Pair pair, int sign, uint32_t word) {
    counts_[pair] += sign * words_[word].times;
    if (sign < 0) return;
    std::vector<uint32_t>& words = new_[pair];
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  Candidate pop() {
    std::pop_heap(queue_.begin(), queue_.end());
    Candidate best = std::move(queue_.back());
    queue_.pop_back();
    return best;
  }
  void push(Candidate candidate) {
    queue_.push_back(std::move(candidate));
    std::push_heap(queue_.begin(), queue_.end());
  }

  // A pair that is met anew waits a second time, with the words it was met in now: so do they in
  // tokenizers, and a name that two pairs make has one id, by which that can happen.
  void push_new() {
    for (auto& [pair, words] : new_)
      if (const int64_t count = counts_[pair]; count > 0)
        push({.count = count, .pair = pair, .words = std::move(words)});
    new_.clear();
  }

  void merge(const Candidate& best) {
    const auto left = static_cast<int32_t>(best.pair >> 32);
    const auto right = static_cast<int32_t>(best.pair & UINT32_MAX);
    const int32_t merged = id_of(trained_.names[size_t(left)] + trained_.names[size_t(right)]);
    trained_.merges.emplace_back(left, right);
    for (uint32_t word : best.words) merge_in(word, left, right, merged);
    push_new();
  }

  // From left to right, without overlap. The merged pair's own count is left as it is.
  void merge_in(uint32_t index, int32_t left, int32_t right, int32_t merged) {
    Word& word = words_[index];
    int32_t* const tokens = &tokens_[word.begin];
    uint32_t kept = 0;
    for (uint32_t at = 0; at < word.tokens; ++at, ++kept) {
      if (tokens[at] != left || at + 1 == word.tokens || tokens[at + 1] != right) {
        tokens[kept] = tokens[at];
        continue;
      }
      if (kept > 0) {
        count(pair_of(tokens[kept - 1], left), -1, index);
        count(pair_of(tokens[kept - 1], merged), 1, index);
      }
      if (at + 2 < word.tokens) {
        count(pair_of(right, tokens[at + 2]), -1, index);
        count(pair_of(merged, tokens[at + 2]), 1, index);
      }
      tokens[kept] = merged;
      ++at;
    }
    word.tokens = kept;
  }

  const BpeTraining& training_;
  TrainedBpe trained_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<int32_t> tokens_;  ///< of all words, one behind the other
  std::vector<Word> words_;
  std::unordered_map<Pair, int64_t> counts_;
  std::unordered_map<Pair, std::vector<uint32_t>> new_;  ///< pairs to push, words by index
  std::vector<Candidate> queue_;                         ///< a heap
};

OrderedJson pre_tokenizer_of(const std::string& pattern) {
  if (pattern == "gpt2") return byte_level_json(false, true, true);
  return {{"type", "Sequence"},
          {"pretokenizers", OrderedJson::array({split_json(known_pattern(pattern)),
                                                byte_level_json(false, false, false)})}};
}

OrderedJson model_of(const TrainedBpe& trained, const BpeTraining& training) {
  OrderedJson::object_t vocab;
  for (size_t id = 0; id < trained.names.size(); ++id)
    vocab.emplace_back(trained.names[id], id);  // no key is looked for: each is there once
  OrderedJson merges = OrderedJson::array();
  for (const auto& [left, right] : trained.merges)
    merges.push_back({trained.names[size_t(left)], trained.names[size_t(right)]});
  OrderedJson model = bpe_json(training.pattern == "llama3" || training.pattern == "o200k");
  model["vocab"] = std::move(vocab);
  model["merges"] = std::move(merges);
  return model;
}

}  // namespace

TrainedBpe train_bpe(const std::vector<std::string_view>& texts, const BpeTraining& training,
                     Threads threads, const std::function<void(int64_t, int64_t)>& show) {
  if (std::find(std::begin(kKnownPatterns), std::end(kKnownPatterns), training.pattern) ==
      std::end(kKnownPatterns))
    throw Error({.key = "pattern",
                 .problem = fmt::format("unknown \"{}\"", training.pattern),
                 .remedy = one_of(kKnownPatterns)});
  return Trainer(count_pieces(texts, training.pattern, training.compose, threads), training)
      .train(show);
}

std::string tokenizer_json_of(const TrainedBpe& trained, const BpeTraining& training) {
  OrderedJson added = OrderedJson::array();
  for (size_t id = 0; id < trained.names.size(); ++id) {
    const auto& special = training.special_tokens;
    if (std::find(special.begin(), special.end(), trained.names[id]) != special.end())
      added.push_back(special_token_json(static_cast<int64_t>(id), trained.names[id]));
  }
  const OrderedJson normalizer = training.compose ? OrderedJson{{"type", "NFC"}} : OrderedJson();
  const OrderedJson json = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", added},
                            {"normalizer", normalizer},
                            {"pre_tokenizer", pre_tokenizer_of(training.pattern)},
                            {"post_processor", nullptr},
                            {"decoder", byte_level_json(true, true, true)},
                            {"model", model_of(trained, training)}};
  return json_text(json, 1) + "\n";
}

}  // namespace ng
