#include "backend/ref/embed.h"

#include "backend/ref/number.h"

namespace ng::ref {
namespace {

void check(ConstView y, TokenView ids, ConstView tokens, ConstView positions, const Positions& at) {
  const auto count = static_cast<int64_t>(ids.size());
  NG_CHECK(at.sequences * at.length == count && y.rows == count, at.sequences, at.length, count,
           y.rows);
  NG_CHECK(tokens.cols == y.cols, tokens.cols, y.cols);
  if (positions.rows == 0) return;
  NG_CHECK(positions.cols == y.cols && at.first + at.length <= positions.rows, positions.cols,
           y.cols, at.first, at.length, positions.rows);
}

int64_t token_at(TokenView ids, int64_t t, ConstView tokens) {
  const int64_t id = ids[static_cast<size_t>(t)];
  NG_CHECK(id >= 0 && id < tokens.rows, id, tokens.rows, t);
  return id;
}

}  // namespace

void embed(View y, TokenView ids, ConstView tokens, ConstView positions, const Positions& at,
           Compute compute) {
  check(y, ids, tokens, positions, at);
  for (int64_t t = 0; t < y.rows; ++t) {
    const float* token = tokens.row(token_at(ids, t, tokens));
    for (int64_t c = 0; c < y.cols; ++c) {
      float sum = in(token[c], compute);
      if (positions.rows > 0) sum += in(positions.row(at.first + t % at.length)[c], compute);
      y.row(t)[c] = out(sum, compute);
    }
  }
}

void embed_backward(View dtokens, View dpositions, ConstView dy, TokenView ids,
                    const Positions& at) {
  check(dy, ids, dtokens, dpositions, at);
  for (int64_t t = 0; t < dy.rows; ++t) {
    float* dtoken = dtokens.row(token_at(ids, t, dtokens));
    for (int64_t c = 0; c < dy.cols; ++c) dtoken[c] += dy.row(t)[c];
    if (dpositions.rows == 0) continue;
    float* dposition = dpositions.row(at.first + t % at.length);
    for (int64_t c = 0; c < dy.cols; ++c) dposition[c] += dy.row(t)[c];
  }
}

}  // namespace ng::ref
