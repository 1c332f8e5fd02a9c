#include "tools/tensor_facts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "math/round.h"

namespace ng {
namespace {

constexpr int64_t kPieceValues = int64_t{1} << 22;
constexpr int64_t kChunkValues = 1 << 16;

TensorFacts facts_of_chunk(const float* x, int64_t count) {
  TensorFacts facts;
  facts.values = static_cast<uint64_t>(count);
  facts.min = HUGE_VAL;  // only read where some value is finite
  facts.max = -HUGE_VAL;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t u = float_bits(x[i]) & 0x7FFFFFFFu;
    if (u >= kFloatInf) {
      ++(u == kFloatInf ? facts.inf : facts.nan);
      continue;
    }
    const double v = x[i];
    facts.min = std::min(facts.min, v);
    facts.max = std::max(facts.max, v);
    facts.sum += v;
    facts.squares += v * v;
    if (u == 0)
      ++facts.zeros;
    else
      ++facts.binades.count[static_cast<size_t>(floor_log2(float_of_bits(u)) - Binades::kLowest)];
  }
  return facts;
}

void add(TensorFacts& sum, const TensorFacts& part) {
  const bool first = sum.finite() == 0;
  if (part.finite() > 0) {
    sum.min = first ? part.min : std::min(sum.min, part.min);
    sum.max = first ? part.max : std::max(sum.max, part.max);
  }
  sum.values += part.values;
  sum.zeros += part.zeros;
  sum.nan += part.nan;
  sum.inf += part.inf;
  sum.sum += part.sum;
  sum.squares += part.squares;
  for (size_t i = 0; i < sum.binades.count.size(); ++i)
    sum.binades.count[i] += part.binades.count[i];
}

}  // namespace

double TensorFacts::amax() const { return std::max(std::fabs(min), std::fabs(max)); }
double TensorFacts::mean() const { return finite() == 0 ? 0 : sum / static_cast<double>(finite()); }
double TensorFacts::rms() const {
  return finite() == 0 ? 0 : std::sqrt(squares / static_cast<double>(finite()));
}

TensorFacts facts_of(const io::SafetensorsEntry& entry, Threads threads,
                     const TensorProgress& progress) {
  const io::FloatReader reader(entry);
  const int64_t elements = entry.elements();
  std::vector<float> values;
  TensorFacts facts;
  for (int64_t first = 0; first < elements; first += kPieceValues) {
    const int64_t count = std::min(kPieceValues, elements - first);
    values.resize(static_cast<size_t>(count));
    reader.read(first, values);
    std::vector<TensorFacts> chunks(static_cast<size_t>((count + kChunkValues - 1) / kChunkValues));
    parallel_for(threads, static_cast<int64_t>(chunks.size()), [&](int64_t chunk, int) {
      const int64_t begin = chunk * kChunkValues;
      chunks[static_cast<size_t>(chunk)] =
          facts_of_chunk(values.data() + begin, std::min(kChunkValues, count - begin));
    });
    for (const TensorFacts& chunk : chunks) add(facts, chunk);
    progress(static_cast<double>(first + count) / static_cast<double>(elements));
  }
  return facts;
}

}  // namespace ng
