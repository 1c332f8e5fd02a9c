#include "nn/attention_block.h"

namespace ng {

AttentionBlock::Qkv AttentionBlock::split(const View& qkv) const {
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
          .head_dim = parts_.head_dim,
          .window = parts_.window};
}

void AttentionBlock::rotate(Run& run, const Qkv& parts, const Batch& batch, bool inverse) const {
  if (parts_.rope_table.rows == 0) return;
  for (const View& x : {parts.q, parts.k})
    run.execute(Rope{.x = x,
                     .table = parts_.rope_table,
                     .at = batch.at,
                     .head_dim = parts_.head_dim,
                     .inverse = inverse});
}

AttentionBlock::Heads AttentionBlock::read_heads(Run& run, const Tensor& qkv,
                                                 const Batch& batch) const {
  Heads heads{{}, split(qkv)};
  if (!parts_.head_norms) return heads;
  const Qkv projected = heads.of;
  const int64_t q = projected.q.cols, k = projected.k.cols;
  heads.made = run.tensor(qkv.view().rows, q + k, *qkv.view().element);
  heads.of.q = heads.made.view().columns(0, q);
  heads.of.k = heads.made.view().columns(q, k);
  parts_.head_norms->q.forward(run, heads.of.q, projected.q);
  parts_.head_norms->k.forward(run, heads.of.k, projected.k);
  rotate(run, heads.of, batch, false);
  return heads;
}

void AttentionBlock::heads_backward(Run& run, const Qkv& d, const Tensor& qkv,
                                    const Batch& batch) const {
  rotate(run, d, batch, true);
  if (!parts_.head_norms) return;
  const Qkv projected = split(qkv);
  parts_.head_norms->q.backward(run, d.q, {}, d.q, projected.q);
  parts_.head_norms->k.backward(run, d.k, {}, d.k, projected.k);
}

Source AttentionBlock::read_norm(Run& run, const ConstView& x, bool is_backward) const {
  const AmaxSlot amax = kept_input().slot(run, x, is_backward);
  return gathered(run, parts_.norm.source(run, x, amax), parts_.wires.inputs);
}

Tensor AttentionBlock::project(Run& run, const ConstView& x, const Batch& batch) {
  Source n = read_norm(run, x, false);
  const int64_t width = (int64_t{parts_.heads} + 2 * parts_.kv_heads) * parts_.head_dim;
  const Tensor qkv = run.tensor(n.rows(), width, *x.element);
  int64_t column = 0;
  kept_input().keep(run, n);
  for (Linear& projection : parts_.projections) {
    projection.fprop(run, qkv.view().columns(column, projection.outputs()), n);
    column += projection.outputs();
  }
  if (!parts_.head_norms) rotate(run, split(qkv), batch, false);
  return qkv;
}

void AttentionBlock::attend(Run& run, const View& a, const View& lse, Qkv parts, const Batch& batch,
                            const AmaxSlot& amax) const {
  if (batch.cache != nullptr) {
    const auto block = static_cast<size_t>(parts_.block);
    View keys = batch.cache->keys[block], values = batch.cache->values[block];
    for (int64_t s = 0; s < batch.at.sequences; ++s) {
      const int64_t to = s * batch.cache->capacity + batch.at.first, from = s * batch.at.length;
      const int64_t count = batch.at.length;
      run.execute(Copy{.y = keys.slice(to, count), .x = parts.k.slice(from, count)});
      run.execute(Copy{.y = values.slice(to, count), .x = parts.v.slice(from, count)});
    }
    parts.k = keys;
    parts.v = values;
  }
  run.execute(Attention{.out = a,
                        .lse = lse,
                        .q = parts.q,
                        .k = parts.k,
                        .v = parts.v,
                        .shape = shape(batch),
                        .first_keys = batch.first_keys,
                        .probabilities = parts_.numbers.probabilities,
                        .amax = amax.place()});
}

Tensor AttentionBlock::forward(Run& run, const Tensor& x, const Batch& batch) {
  const Run::Place place = run.in(parts_.name);
  Tensor qkv = project(run, x, batch);
  const int64_t tokens = qkv.view().rows;
  Source a(run.tensor(tokens, int64_t{parts_.heads} * parts_.head_dim, *x.view().element),
           parts_.attention);
  const AmaxSlot amax = input_of_out().slot(run, a.values(), false);
  a.know_amax(amax);
  const Tensor lse = run.tensor(tokens, parts_.heads, fp32_format());
  attend(run, a.owner(), lse, read_heads(run, qkv, batch).of, batch, amax);
  save(run, qkv, parts_.saved.attention);
  qkv = {};
  save(run, a.owner(), parts_.saved.attention);
  run.save(lse);
  input_of_out().keep(run, a);
  Tensor y =
      sum_of_own_tokens(run, parts_.out.forward(run, a), parts_.wires.sums, *x.view().element);
  run.execute(Add{.y = y, .a = x, .b = y});
  save(run, x, parts_.saved.norm);
  return y;
}

// d(norm's output), of x's type.
Tensor AttentionBlock::project_backward(Run& run, const ConstView& x, const Tensor& dqkv,
                                        std::optional<Source> kept) {
  Source n = kept ? *std::move(kept) : read_norm(run, x, true);
  Tensor dn = gradient_sum(run, x, n.rows(), parts_.projections);
  int64_t column = 0;
  for (Linear& projection : parts_.projections) {
    Source dy(dqkv, dqkv.view().columns(column, projection.outputs()), projection.output());
    projection.backward(run, dn, column == 0 ? Into::overwrite : Into::add, n, dy);
    column += projection.outputs();
  }
  return sum_of_own_tokens(run, std::move(dn), parts_.wires.sums, *x.element);
}

void AttentionBlock::backward(Run& run, ResidualGradient& gradient, const Batch& batch) {
  const Run::Place place = run.in(parts_.name);
  const View dy = gradient.values;
  const Saved saved_x(run, parts_.saved.norm, *dy.element);
  std::optional<Source> kept_a = input_of_out().take(run, dy);
  const Tensor lse = run.restore();
  Source a(Saved(run, parts_.saved.attention, *dy.element).values(run), parts_.attention);
  const Tensor qkv = Saved(run, parts_.saved.attention, *dy.element).values(run);
  std::optional<Source> kept_n = kept_input().take(run, dy);

  const Tensor dqkv = run.tensor_like(qkv);
  {
    const Tensor da = run.tensor_like(a.values());
    if (parts_.out.divides_inputs()) parts_.out.add_bias_gradient(run, dy);
    Source dout = gathered(run, source_of(gradient, parts_.out), parts_.wires.gradients);
    parts_.out.backward(run, da, Into::overwrite, kept_a ? *kept_a : a, dout);
    kept_a.reset();
    const Heads heads = read_heads(run, qkv, batch);
    const Qkv& forward = heads.of;
    const Qkv d = split(dqkv);
    run.execute(AttentionBackward{.dq = d.q,
                                  .dk = d.k,
                                  .dv = d.v,
                                  .dout = da,
                                  .out = a.values(),
                                  .lse = lse,
                                  .q = forward.q,
                                  .k = forward.k,
                                  .v = forward.v,
                                  .shape = shape(batch),
                                  .first_keys = batch.first_keys,
                                  .probabilities = parts_.numbers.probabilities});
  }
  heads_backward(run, split(dqkv), qkv, batch);
  const Tensor x = saved_x.values(run);
  const Tensor dn = project_backward(run, x, dqkv, std::move(kept_n));
  gradient.amax = gradient.next_slot(run);
  parts_.norm.backward(run, dy, dy, dn, x, gradient.amax);
}

void AttentionBlock::collect(std::vector<Linear*>& linears) {
  for (Linear& projection : parts_.projections) linears.push_back(&projection);
  linears.push_back(&parts_.out);
}

}  // namespace ng
