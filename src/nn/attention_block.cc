#include "nn/attention_block.h"

namespace ng {

AttentionBlock::Qkv AttentionBlock::split(View qkv) const {
  const int64_t q = int64_t{parts_.heads} * parts_.head_dim;
  const int64_t kv = int64_t{parts_.kv_heads} * parts_.head_dim;
  return {qkv.columns(0, q), qkv.columns(q, kv), qkv.columns(q + kv, kv)};
}

AttentionShape AttentionBlock::shape(const Batch& batch) const {
  return {.sequences = batch.at.sequences,
          .length = batch.at.length,
          .kv_length = batch.at.first + batch.at.length,
          .kv_stride = batch.cache != nullptr ? batch.cache->capacity : batch.at.length,
          .first = batch.at.first,
          .heads = parts_.heads,
          .kv_heads = parts_.kv_heads,
          .head_dim = parts_.head_dim};
}

void AttentionBlock::rotate(Run& run, View qkv, const Batch& batch, bool inverse) const {
  if (parts_.rope_table.rows == 0) return;
  const Qkv parts = split(qkv);
  for (const View& x : {parts.q, parts.k})
    run.ops().rope(x, parts_.rope_table, batch.at, parts_.head_dim, inverse, parts_.compute);
}

Tensor AttentionBlock::project(Run& run, ConstView x, const Batch& batch) {
  Source n = parts_.norm.source(run, x);
  const int64_t width = (int64_t{parts_.heads} + 2 * parts_.kv_heads) * parts_.head_dim;
  const Tensor qkv = run.tensor(x.rows, width);
  int64_t column = 0;
  for (Linear& projection : parts_.projections) {
    projection.fprop(run, qkv.view().columns(column, projection.outputs()), n);
    column += projection.outputs();
  }
  rotate(run, qkv, batch, false);
  return qkv;
}

void AttentionBlock::attend(Run& run, View a, View lse, View qkv, const Batch& batch) const {
  Qkv parts = split(qkv);
  if (batch.cache != nullptr) {
    const auto block = static_cast<size_t>(parts_.block);
    View keys = batch.cache->keys[block], values = batch.cache->values[block];
    for (int64_t s = 0; s < batch.at.sequences; ++s) {
      const int64_t to = s * batch.cache->capacity + batch.at.first, from = s * batch.at.length;
      run.ops().copy(keys.slice(to, batch.at.length), parts.k.slice(from, batch.at.length));
      run.ops().copy(values.slice(to, batch.at.length), parts.v.slice(from, batch.at.length));
    }
    parts.k = keys;
    parts.v = values;
  }
  run.ops().attention(a, lse, parts.q, parts.k, parts.v, shape(batch), parts_.compute);
}

Tensor AttentionBlock::forward(Run& run, const Tensor& x, const Batch& batch) {
  const Tensor qkv = project(run, x, batch);
  Source a(run.tensor(qkv.view().rows, int64_t{parts_.heads} * parts_.head_dim), parts_.attention);
  const Tensor lse = run.tensor(qkv.view().rows, parts_.heads);
  attend(run, a.owner(), lse, qkv, batch);
  Tensor y = parts_.out.forward(run, a);
  run.ops().add(y, x, y, parts_.compute);
  run.save(x);
  run.save(qkv);
  run.save(a.owner());
  run.save(lse);
  return y;
}

void AttentionBlock::project_backward(Run& run, View dn, ConstView x, const Tensor& dqkv,
                                      const Batch& batch) {
  rotate(run, dqkv, batch, true);
  Source n = parts_.norm.source(run, x);  // made again: cheaper than keeping it
  int64_t column = 0;
  for (Linear& projection : parts_.projections) {
    Source dy(dqkv, dqkv.view().columns(column, projection.outputs()), projection.output());
    projection.backward(run, dn, column == 0 ? Into::overwrite : Into::add, n, dy);
    column += projection.outputs();
  }
}

void AttentionBlock::backward(Run& run, View dy, const Batch& batch) {
  const Tensor lse = run.restore();
  Source a(run.restore(), parts_.attention);
  const Tensor qkv = run.restore();
  const Tensor x = run.restore();

  Tensor dqkv = run.tensor(qkv.view().rows, qkv.view().cols);
  {
    const Tensor da = run.tensor(a.values().rows, a.values().cols);
    Source dout({}, dy, parts_.out.output());
    parts_.out.backward(run, da, Into::overwrite, a, dout);
    const Qkv forward = split(qkv), d = split(dqkv);
    run.ops().attention_backward({.dq = d.q,
                                  .dk = d.k,
                                  .dv = d.v,
                                  .dout = da,
                                  .out = a.values(),
                                  .lse = lse,
                                  .q = forward.q,
                                  .k = forward.k,
                                  .v = forward.v},
                                 shape(batch), parts_.compute);
  }
  const Tensor dn = run.tensor(x.view().rows, x.view().cols);
  project_backward(run, dn, x, dqkv, batch);
  parts_.norm.backward(run, dy, dy, dn, x);
}

void AttentionBlock::collect(std::vector<Linear*>& linears) {
  for (Linear& projection : parts_.projections) linears.push_back(&projection);
  linears.push_back(&parts_.out);
}

void AttentionBlock::set_compute(Compute compute) {
  parts_.compute = compute;
  parts_.norm.set_compute(compute);
}

}  // namespace ng
