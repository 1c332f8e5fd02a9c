#include "nn/tensor_group.h"

#include <algorithm>
#include <utility>

#include "comm/gradient_pieces.h"
#include "comm/memory_messages.h"

namespace ng {
namespace {

std::span<std::byte> all_bytes(const View& x) {
  return {x.data, static_cast<size_t>(x.rows) * bytes_of(*x.element, x.stride)};
}

/// Equal slices of `all` from their ranks to all; each has its own there.
void gather_rows(Run& run, Traffic kind, const View& all) {
  if (run.recording()) return;
  all_gather(run.tensor_group(), run.backend(), kind, all_bytes(all));
}

RandomKey key_of(const Run& run, const Source& mine, const TokenSlice& slice) {
  return {.seed = run.rounding_seed(),
          .tensor = mine.tensor(),
          .step = run.moment().step,
          .purpose = Purpose::fprop_input,
          .micro = run.moment().micro,
          .first_group = first_group_of(slice.first, mine.values().cols)};
}

/// *amax becomes the largest of the group's.
void share_amax(Run& run, float* amax) {
  if (run.recording()) return;
  float largest = run.read(amax);
  run.tensor_group().max(std::span(&largest, 1));
  run.upload(amax, std::span<const float>(&largest, 1));
}

Source gathered_plainly(Run& run, const Source& mine, const Operand& cast,
                        const TokenSlice& slice) {
  const ConstView x = mine.values();
  const int64_t rows = x.rows * run.tensor_group().ranks();
  const Tensor all = run.tensor(rows, x.cols, *cast.element);
  const View own = all.view().slice(slice.first, slice.count);
  if (x.is(*cast.element))
    run.execute(Copy{.y = own, .x = x});
  else
    run.execute(Store{{own, cast}, x, key_of(run, mine, slice)});
  gather_rows(run, Traffic::activations, all);
  const View whole = all;
  if (whole.is(fp32_format()) || whole.is(bf16_format())) return {all, mine.tensor()};
  Tensor wide = run.tensor(rows, x.cols, cast.is_exact_in_bf16() ? bf16_format() : fp32_format());
  run.execute(Store{stored_plainly(wide), all, {}});
  return {wide, mine.tensor()};
}

Tensor as(Run& run, Tensor from, const ElementFormat& to) {
  const View x = from.view();
  if (x.is(to)) return from;
  Tensor y = run.tensor(x.rows, x.cols, to);
  run.execute(Copy{.y = y, .x = x});
  return y;
}

/// Each rank's rows of its tokens' owner go there: `of_mine`, by rank.
void exchange_rows(Run& run, Traffic kind, const View& parts, const View& of_mine) {
  if (run.recording()) return;
  all_to_all(run.tensor_group(), run.backend(), kind, all_bytes(parts), all_bytes(of_mine));
}

Tensor plain_sum(Run& run, Tensor part) {
  const View parts = part;
  const int ranks = run.tensor_group().ranks();
  const TokenSlice slice = own_tokens(run, parts.rows);
  const Tensor all = run.tensor(parts.rows, parts.cols, *parts.element);
  exchange_rows(run, Traffic::activations, parts, all);
  part = {};
  Tensor sum = run.tensor(slice.count, parts.cols, fp32_format());
  const auto of = [&](int rank) { return all.view().slice(rank * slice.count, slice.count); };
  run.execute(Add{.y = sum, .a = of(0), .b = of(1)});
  for (int rank = 2; rank < ranks; ++rank) run.execute(Add{.y = sum, .a = sum, .b = of(rank)});
  return sum;
}

Tensor narrow_sum(Run& run, Tensor part, const Operand& wire) {
  const auto [rows, cols] = std::pair(part.view().rows, part.view().cols);
  const TokenSlice slice = own_tokens(run, rows);
  const CastTensor mine = cast_tensor(run, rows, cols, wire, MemoryKind::activations),
                   all = cast_tensor(run, rows, cols, wire, MemoryKind::activations);
  store_by_group(run, {mine.view, wire}, part, {});
  part = {};
  exchange_rows(run, Traffic::activations, mine.elements, all.elements);
  const bool has_one = wire.block.kind == Block::Kind::tensor;
  if (!has_one) exchange_rows(run, Traffic::scales, mine.scales, all.scales);
  View of_all = all.view;
  if (has_one) of_all.scales = mine.view.scales;
  of_all.scales.tensor = mine.view.scales.tensor;
  std::vector<ConstView> terms;
  for (int rank = 0; rank < run.tensor_group().ranks(); ++rank)
    terms.emplace_back(rows_of(of_all, {.first_row = rank * slice.count, .rows = slice.count}));
  Tensor sum = run.tensor(slice.count, cols, fp32_format());
  run.execute(SumOfRanks{.y = sum, .x = terms});
  return sum;
}

}  // namespace

bool has_scale_of_all(const Operand& cast) {
  return !cast.is_unscaled() &&
         (cast.block.kind == Block::Kind::tensor ||
          (cast.tensor_scale != ScaleKind::none && cast.tensor_block.kind == Block::Kind::tensor));
}

void store_by_group(Run& run, const Stored& y, const ConstView& x, const RandomKey& key) {
  Tensor amax;
  if (has_scale_of_all(y.cast) && run.tensor_group().ranks() > 1) {
    amax = run.tensor(1, 1, fp32_format());
    run.execute(FindAmax{.amax = amax.view().as<float>().data, .x = x});
    share_amax(run, amax.view().as<float>().data);
  }
  run.execute(StoreGradient{
      .y = y, .x = x, .key = key, .amax = amax ? amax.view().as<float>().data : nullptr});
}

TokenSlice own_tokens(const Run& run, int64_t all) {
  const Comm& group = run.tensor_group();
  NG_CHECK(all % group.ranks() == 0, all, group.ranks());
  const int64_t count = all / group.ranks();
  return {.first = group.rank() * count, .count = count};
}

Tensor amax_of_group(Run& run, const OperandSpec& spec, const ConstView& part, const float* mean) {
  if (run.tensor_group().ranks() == 1 || !has_scale_of_all(spec.cast) ||
      spec.cast.scaling == Scaling::delayed)  // whose largest values are shared after the step
    return {};
  const Tensor amax = run.tensor(1, 1, fp32_format());
  float* const at = amax.view().as<float>().data;
  run.execute(FindOperandAmax{.amax = at, .spec = spec, .source = part, .mean = mean});
  share_amax(run, at);
  return amax;
}

Source gathered(Run& run, const Source& mine, const Operand& wire) {
  const Operand cast = run.evaluating() ? wire.rounded_by(Rounding::nearest) : wire;
  const int ranks = run.tensor_group().ranks();
  if (ranks == 1) return mine;
  const ConstView x = mine.values();
  const TokenSlice slice = own_tokens(run, x.rows * ranks);
  if (cast.is_unscaled()) return gathered_plainly(run, mine, cast, slice);
  const CastTensor all = cast_tensor(run, x.rows * ranks, x.cols, cast, MemoryKind::activations);
  store_by_group(run, {rows_of(all.view, {.first_row = slice.first, .rows = slice.count}), cast}, x,
                 key_of(run, mine, slice));
  gather_rows(run, Traffic::activations, all.elements);
  if (cast.block.kind != Block::Kind::tensor) gather_rows(run, Traffic::scales, all.scales);
  return {all, mine.tensor()};
}

Tensor sum_of_own_tokens(Run& run, Tensor part, const Operand& wire, const ElementFormat& element) {
  if (run.tensor_group().ranks() == 1) return as(run, std::move(part), element);
  const bool is_plain = wire.is_unscaled();
  Tensor sum = is_plain ? plain_sum(run, as(run, std::move(part), *wire.element))
                        : narrow_sum(run, std::move(part), wire);
  return as(run, std::move(sum), element);
}

}  // namespace ng
