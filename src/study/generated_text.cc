#include "study/generated_text.h"

#include <cmath>

#include "math/exp.h"
#include "study/samples.h"

namespace ng::study {
namespace {

constexpr int kWords = 256;
constexpr double kLogWords = 5.545177444479562;  // ln 256
constexpr int32_t kSpace = 0, kStop = 27, kEnd = 28;

using Word = std::vector<int32_t>;

// A rank in [0, count) with probability about 1/(rank + 1): its logarithm is uniform.
int by_rank(double u, double log_count) { return static_cast<int>(math::exp(u * log_count)) - 1; }

std::vector<Word> lexicon(const RandomKey& key) {
  std::vector<Word> words(kWords);
  uint64_t group = 0;
  for (Word& word : words) {
    const int letters = 2 + static_cast<int>(8 * uniform(key, group++));
    for (int i = 0; i < letters; ++i)
      word.push_back(1 + by_rank(uniform(key, group++), 3.2580965380214821));
  }
  return words;
}

}  // namespace

std::vector<int32_t> generated_text(const RandomKey& key, int64_t tokens) {
  RandomKey letters = key;
  letters.step = 1;  // a stream of its own
  const std::vector<Word> words = lexicon(letters);
  std::vector<int32_t> text;
  int previous = 0;
  for (uint64_t group = 0; static_cast<int64_t>(text.size()) < tokens; ++group) {
    const PhiloxBlock r = draw(key, group);
    const double u = (r[0] + 0.5) * 0x1p-32;
    // The followers of word w are words 37·w + 11·i, i = 0 ... 3: anything fixed would do.
    const int follower = (37 * previous + 11 * static_cast<int>(r[1] % 4)) % kWords;
    previous = (r[1] & 0x80000000u) != 0 ? follower : by_rank(u, kLogWords);
    const Word& word = words[static_cast<size_t>(previous)];
    text.insert(text.end(), word.begin(), word.end());
    if (r[2] % 9 == 0) text.push_back(kStop);
    text.push_back(r[2] % 45 == 0 ? kEnd : kSpace);
  }
  text.resize(static_cast<size_t>(tokens));
  return text;
}

}  // namespace ng::study
