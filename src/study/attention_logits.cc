#include "study/attention_logits.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "base/error.h"
#include "run/transfer.h"

namespace ng::study {
namespace {

double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

double product(const float* q, const float* k, int head_dim) {
  double sum = 0;
  for (int c = 0; c < head_dim; ++c) sum += static_cast<double>(q[c]) * static_cast<double>(k[c]);
  return sum;
}

}  // namespace

double largest_logit(std::span<const float> q, std::span<const float> k,
                     const AttentionShape& shape) {
  const int64_t q_width = int64_t{shape.heads} * shape.head_dim;
  const int64_t k_width = int64_t{shape.kv_heads} * shape.head_dim;
  const int heads_per_key = shape.heads / shape.kv_heads;
  NG_CHECK(std::ssize(q) == shape.sequences * shape.length * q_width, q.size());
  NG_CHECK(std::ssize(k) >= ((shape.sequences - 1) * shape.kv_stride + shape.kv_length) * k_width,
           k.size());
  double largest = 0;
  for (int64_t s = 0; s < shape.sequences; ++s)
    for (int64_t i = 0; i < shape.length; ++i)
      for (int head = 0; head < shape.heads; ++head) {
        const float* query =
            q.data() + (s * shape.length + i) * q_width + int64_t{head} * shape.head_dim;
        const float* keys = k.data() + s * shape.kv_stride * k_width +
                            int64_t{head / heads_per_key} * shape.head_dim;
        for (int64_t j = shape.first_key(i); j <= shape.first + i; ++j)
          largest = larger(largest, std::abs(product(query, keys + j * k_width, shape.head_dim)));
      }
  return largest / std::sqrt(shape.head_dim);
}

void LogitWatch::start() {
  looks_ = true;
  largest_ = 0;
}

double LogitWatch::finish() {
  looks_ = false;
  return largest_;
}

void LogitWatch::execute(const Operation& operation) {
  WrappedBackend::execute(operation);
  if (!looks_) return;
  const auto* attention = std::get_if<Attention>(&operation);
  if (attention == nullptr) return;
  largest_ = larger(largest_, largest_logit(ng::download(*this, attention->q),
                                            ng::download(*this, attention->k), attention->shape));
}

}  // namespace ng::study
