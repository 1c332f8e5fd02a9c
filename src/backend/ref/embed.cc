#include "backend/ref/embed.h"

#include "backend/layer_checks.h"
#include "backend/ref/number.h"

namespace ng::ref {
namespace {

int64_t token_at(TokenView ids, int64_t t, const ConstView& tokens) {
  const int64_t id = ids[static_cast<size_t>(t)];
  NG_CHECK(id >= 0 && id < tokens.rows, id, tokens.rows, t);
  return id;
}

}  // namespace

void perform(const Embed& op) {
  check_embedding(op.y, op.ids, op.tokens, op.positions, op.at);
  const Reader tokens(op.tokens, op.y), positions(op.positions, op.y);
  const Writer y(op.y);
  for (int64_t t = 0; t < op.y.rows; ++t) {
    const int64_t token = token_at(op.ids, t, op.tokens);
    for (int64_t c = 0; c < op.y.cols; ++c) {
      float sum = tokens(token, c);
      if (op.positions.rows > 0) sum += positions(op.at.first + t % op.at.length, c);
      y.put(t, c, sum);
    }
  }
}

void perform(const EmbedBackward& op) {
  check_embedding(op.dy, op.ids, op.dtokens, op.dpositions, op.at);
  const Reader dy(op.dy);
  const Writer dtokens(op.dtokens), dpositions(op.dpositions);
  for (int64_t t = 0; t < op.dy.rows; ++t) {
    const int64_t token = token_at(op.ids, t, op.dtokens);
    for (int64_t c = 0; c < op.dy.cols; ++c) dtokens.add(token, c, dy(t, c));
    if (op.dpositions.rows == 0) continue;
    const int64_t position = op.at.first + t % op.at.length;
    for (int64_t c = 0; c < op.dy.cols; ++c) dpositions.add(position, c, dy(t, c));
  }
}

}  // namespace ng::ref
