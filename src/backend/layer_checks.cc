#include "backend/layer_checks.h"

#include "base/error.h"

namespace ng {

void check_attention(const AttentionShape& s, const ConstView& q, const ConstView& k,
                     const ConstView& v, const TokenView& first_keys) {
  NG_CHECK(first_keys.empty() || std::ssize(first_keys) == q.rows, first_keys.size(), q.rows);
  NG_CHECK(s.heads > 0 && s.kv_heads > 0 && s.heads % s.kv_heads == 0, s.heads, s.kv_heads);
  NG_CHECK(q.rows == s.sequences * s.length && q.cols == int64_t{s.heads} * s.head_dim, q.rows,
           q.cols, s.sequences, s.length, s.heads, s.head_dim);
  NG_CHECK(same_shape(k, v) && k.cols == int64_t{s.kv_heads} * s.head_dim, k.rows, k.cols, v.rows,
           v.cols, s.kv_heads, s.head_dim);
  NG_CHECK(s.kv_length <= s.kv_stride && k.rows >= s.sequences * s.kv_stride, s.kv_length,
           s.kv_stride, k.rows, s.sequences);
  NG_CHECK(s.first >= 0 && s.first + s.length <= s.kv_length, s.first, s.length, s.kv_length);
  NG_CHECK(s.window >= 0, s.window);
}

void check_embedding(const ConstView& y, TokenView ids, const ConstView& tokens,
                     const ConstView& positions, const Positions& at) {
  const auto count = static_cast<int64_t>(ids.size());
  NG_CHECK(at.sequences * at.length == count && y.rows == count, at.sequences, at.length, count,
           y.rows);
  NG_CHECK(tokens.cols == y.cols, tokens.cols, y.cols);
  if (positions.rows == 0) return;
  NG_CHECK(positions.cols == y.cols && at.first + at.length <= positions.rows, positions.cols,
           y.cols, at.first, at.length, positions.rows);
}

void check_rope(const Rope& op) {
  const Positions& at = op.at;
  NG_CHECK(op.head_dim > 0 && op.head_dim % 2 == 0 && op.x.cols % op.head_dim == 0 &&
               op.table.cols == op.head_dim,
           op.head_dim, op.x.cols, op.table.cols);
  NG_CHECK(op.x.rows == at.sequences * at.length && at.first + at.length <= op.table.rows,
           op.x.rows, at.sequences, at.length, at.first, op.table.rows);
}

}  // namespace ng
