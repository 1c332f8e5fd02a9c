#include "train/gradient_stream.h"

#include <algorithm>
#include <utility>

#include "backend/gradient_scale.h"
#include "comm/gradient_pieces.h"
#include "comm/memory_messages.h"
#include "comm/row_messages.h"

namespace ng {
namespace {

// What an owner may get at once, in elements of all ranks: small enough that the first bucket is on
// its way early and the last not long, large enough that what a message costs does not count.
constexpr int64_t kArrivingElements = int64_t{1} << 23;
constexpr int64_t kFewestElements = int64_t{1} << 16;

Tensor in_fp32(Run& run, Tensor tensor) {
  const View view = tensor.view();
  if (view.is(fp32_format())) return tensor;
  Tensor wide = run.tensor(view.rows, view.cols, fp32_format(), MemoryKind::gradients);
  run.execute(Copy{.y = wide, .x = view});
  return wide;
}

void add_to(Run& run, const View& a, const View& b) { run.execute(Combine{.y = a, .x = b}); }

constexpr size_t kAlignment = 64;
size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Room for a tensor and its scales, each where vectors and floats may lie.
size_t room_for(const ConstView& x) {
  size_t bytes = 0;
  for_each_memory(x, [&](auto memory, bool) { bytes += aligned(memory.size()); });
  return bytes;
}

/// A tensor like `x` in such room.
View placed(View x, std::byte* at) {
  const auto take = [&](size_t bytes) { return std::exchange(at, at + aligned(bytes)); };
  std::vector<std::byte*> places;
  for_each_memory(x, [&](auto memory, bool) { places.push_back(take(memory.size())); });
  x.data = places[0];
  if (x.has_scales()) x.scales.data = places[1];
  if (x.has_scales() && x.scales.tensor != nullptr)
    x.scales.tensor = reinterpret_cast<float*>(places[2]);
  return x;
}

}  // namespace

GradientStream::GradientStream(Run& run, Model& model, const Ranks& ranks,
                               std::vector<std::vector<TreeNode>> nodes, float factor)
    : run_(run),
      model_(model),
      ranks_(ranks),
      nodes_(std::move(nodes)),
      factor_(factor),
      trees_(model.parameters().size()),
      sums_(trees_.size()),
      free_sums_(trees_.size()),
      bucket_elements_(std::max(kFewestElements, kArrivingElements / ranks.owners->ranks())) {
  const std::span<Parameter> all = model.parameters();
  const bool any_is_narrow = std::any_of(
      all.begin(), all.end(), [](const Parameter& p) { return !p.communicate.is_fp32(); });
  if (is_alone() || !any_is_narrow) return;
  amax_ = {run.persistent_values<float>("largest gradients", all.size()), all.size()};
  saturated_ = {run.persistent_values<uint64_t>("saturated gradients", all.size()), all.size()};
}

void GradientStream::start() {
  if (!saturated_.empty()) run_.execute(Clear{std::as_writable_bytes(saturated_)});
}

auto GradientStream::adding(size_t index) {
  return [this, index](const Tensor& a, const Tensor& b) {
    add_to(run_, a, b);
    if (kept_ > 0) free_sums_[index].push_back(b);
  };
}

// The tensors for sums come to be with the first gradient of a step.
Tensor GradientStream::placed_sum(size_t index, Tensor gradient) {
  if (kept_ == 0) return gradient;
  const View& view = gradient.view();
  while (sums_[index].size() < kept_) {
    sums_[index].push_back(run_.tensor(view.rows, view.cols, fp32_format(), MemoryKind::gradients));
    free_sums_[index].push_back(sums_[index].back());
  }
  Tensor place = std::move(free_sums_[index].back());
  free_sums_[index].pop_back();
  run_.execute(Copy{.y = place, .x = view});
  return place;
}

void GradientStream::add(size_t index, TreeNode node) {
  if (!parameter(index).grad || (!is_alone() && is_narrow(index))) return;
  trees_[index].push(node,
                     placed_sum(index, in_fp32(run_, std::exchange(parameter(index).grad, {}))),
                     adding(index));
}

void GradientStream::pass_to(const std::vector<TreeNode>& nodes) {
  for (size_t i = 0; i < trees_.size(); ++i) {
    if (sums_[i].empty()) continue;
    trees_[i].sums().clear();
    free_sums_[i] = sums_[i];
    for (const TreeNode& node : nodes) {
      trees_[i].sums().push_back({node, free_sums_[i].back()});
      free_sums_[i].pop_back();
    }
  }
}

void GradientStream::forget() {
  for (std::vector<std::vector<Tensor>>* tensors : {&sums_, &free_sums_})
    for (std::vector<Tensor>& of_parameter : *tensors) of_parameter.clear();
}

void GradientStream::send(std::span<const size_t> parameters) {
  std::vector<Range> bucket;
  int64_t elements = 0;
  for (const size_t index : parameters) {
    SumTree<Tensor>& tree = trees_[index];
    if (!parameter(index).grad && tree.sums().empty()) continue;
    const bool is_mine_alone = ranks_.owners->ranks() == 1 && !is_narrow(index);
    if (is_alone() || is_mine_alone) {
      parameter(index).grad = tree.finish(adding(index));
      continue;
    }
    const View& whole = parameter(index).value();
    const int64_t rows =
        std::max(kPieceRows, bucket_elements_ / whole.cols / kPieceRows * kPieceRows);
    for (int64_t row = 0; row < whole.rows; row += rows) {
      const Range range{index, row, std::min(rows, whole.rows - row)};
      const int64_t more = range.rows * whole.cols;
      if (!bucket.empty() && elements + more > bucket_elements_) {
        begin(std::exchange(bucket, {}));
        elements = 0;
      }
      bucket.push_back(range);
      elements += more;
    }
  }
  if (!bucket.empty()) begin(std::move(bucket));
}

bool GradientStream::shares_scale(size_t index) {
  return is_narrow(index) && ranks_share_scale(parameter(index).communicate);
}

// What a bucket waits for travels while the next one is computed.
void GradientStream::begin(std::vector<Range> ranges) {
  Bucket& bucket = scaling_.emplace_back();
  bucket.ranges = std::move(ranges);
  find_scales(bucket);
  const auto scales = static_cast<std::ptrdiff_t>(bucket.amax != nullptr);
  while (std::ssize(scaling_) > scales) {
    dispatch(std::move(scaling_.front()));
    scaling_.pop_front();
  }
}

// One message for all tensors that begin in the bucket.
void GradientStream::find_scales(Bucket& bucket) {
  for (const Range& range : bucket.ranges) {
    const size_t i = range.index;
    if (range.first_row > 0 || !shares_scale(i)) continue;
    run_.execute(FindAmax{.amax = &amax_[i], .x = parameter(i).grad});
    if (bucket.amax == nullptr) bucket.amax = std::make_shared<std::vector<float>>();
    if (!run_.recording()) bucket.amax->push_back(run_.read(&amax_[i]));
  }
  if (bucket.amax == nullptr || run_.recording()) return;
  bucket.ticket = ranks_.all->start([amax = bucket.amax](Comm& comm) { comm.max(*amax); });
}

void GradientStream::take_scales(const Bucket& bucket) {
  if (bucket.amax == nullptr || run_.recording()) return;
  ranks_.all->wait(bucket.ticket);
  auto of_all = bucket.amax->begin();
  for (const Range& range : bucket.ranges)
    if (range.first_row == 0 && shares_scale(range.index))
      run_.upload(&amax_[range.index], std::span<const float>(&*of_all++, 1));
}

void GradientStream::dispatch(Bucket bucket) {
  take_scales(bucket);
  auto messages = std::make_shared<Messages>();
  for (const Range& range : bucket.ranges) {
    if (range.first_row == 0)
      encoded_[range.index] = std::make_shared<Encoded>(encode(range.index));
    Sent& sent = bucket.sent.emplace_back();
    sent.range = range;
    sent.mine = encoded_[range.index];
    if (range.first_row + range.rows == parameter(range.index).value().rows)
      encoded_.erase(range.index);
    lay_out(sent, *messages);
  }
  if (!run_.recording())
    bucket.ticket = ranks_.background->start([messages, &backend = run_.backend()](Comm& comm) {
      exchange(comm, backend, messages->out, messages->in);
    });
  travelling_.push_back(std::move(bucket));
  if (travelling_.size() < 2) return;
  arrive(travelling_.front());
  travelling_.pop_front();
}

GradientStream::Encoded GradientStream::encode(size_t index) {
  Encoded encoded;
  encoded.sums = std::exchange(trees_[index].sums(), {});
  if (!encoded.sums.empty()) return encoded;
  Parameter& of = parameter(index);
  finish_gradient(run_, of, shares_scale(index) ? &amax_[index] : nullptr);
  if (of.auto_scale != nullptr && model_.gradient_recipe().reduce == GradientRecipe::Reduce::fp32)
    run_.execute(CountLargest{&saturated_[index], of.grad});
  encoded.rounded = of.gradient();  // without a scale that all share: it need not travel
  if (ranks_share_scale(of.communicate)) encoded.rounded.scales = {};
  encoded.codes = std::move(of.grad);
  encoded.scales = std::exchange(of.grad_scales, {});
  return encoded;
}

// Rows of what this rank sends.
View GradientStream::term_of_mine(const Sent& sent, size_t node, const Piece& piece) {
  const Encoded& mine = *sent.mine;
  return rows_of(mine.sums.empty() ? mine.rounded : mine.sums[node].value.view(), piece);
}

void GradientStream::lay_out(Sent& sent, Messages& messages) {
  const int me = ranks_.owners->rank();
  const size_t nodes = sent.mine->sums.empty() ? 1 : sent.mine->sums.size();
  const int64_t end = sent.range.first_row + sent.range.rows;
  for (Piece piece : model_.partition().of(static_cast<int64_t>(sent.range.index))) {
    const int64_t last = std::min(piece.first_row + piece.rows, end);
    piece.first_row = std::max(piece.first_row, sent.range.first_row);
    piece.rows = last - piece.first_row;
    if (piece.rows <= 0) continue;
    if (piece.owner == me)
      sent.pieces.push_back(piece);
    else
      for (size_t node = 0; node < nodes; ++node)
        append_to(term_of_mine(sent, node, piece), Traffic::gradients, piece.owner, messages.out);
  }
  const auto nodes_of_others = [&] {
    if (sent.mine->sums.empty()) return nodes_.size() - 1;
    size_t count = 0;
    for (const std::vector<TreeNode>& of_rank : nodes_) count += of_rank.size();
    return count - nodes;
  }();
  size_t room = 0;
  for (const Piece& piece : sent.pieces)
    room += nodes_of_others * room_for(term_of_mine(sent, 0, piece));
  if (room > 0) sent.from_others = run_.bytes(room, MemoryKind::gradients);
  std::byte* at = room > 0 ? sent.from_others.bytes() : nullptr;
  for (const Piece& piece : sent.pieces) receive(sent, piece, messages, at);
}

void GradientStream::receive(Sent& sent, const Piece& piece, Messages& messages, std::byte*& at) {
  const auto me = static_cast<size_t>(ranks_.owners->rank());
  auto& terms = sent.terms.emplace_back(nodes_.size());
  for (size_t rank = 0; rank < nodes_.size(); ++rank) {
    const size_t nodes = sent.mine->sums.empty() ? 1 : nodes_[rank].size();
    for (size_t node = 0; node < nodes; ++node) {
      View& term = terms[rank].emplace_back(term_of_mine(sent, rank == me ? node : 0, piece));
      if (rank == me) continue;
      term = placed(term, at);
      at += room_for(term);
      append_from(term, static_cast<int>(rank), messages.in);
    }
  }
}

void GradientStream::arrive(Bucket& bucket) {
  if (!run_.recording()) ranks_.background->wait(bucket.ticket);
  for (Sent& sent : bucket.sent) {
    for (size_t i = 0; i < sent.pieces.size(); ++i) {
      const View y = rows_of_mean(sent.range.index, sent.pieces[i]);
      if (sent.mine->sums.empty())
        take_mean(sent, i, y);
      else
        add_up(sent, i, y);
    }
    sent = {};
  }
}

View GradientStream::rows_of_mean(size_t index, const Piece& piece) {
  for (Parameter* owned : model_.owned_of(index)) {
    const int64_t first = piece.first_row - owned->first_row;
    if (first < 0 || first >= owned->spec.rows) continue;
    if (first == 0)
      owned->grad =
          run_.tensor(owned->spec.rows, owned->spec.cols, fp32_format(), MemoryKind::gradients);
    return owned->grad.view().slice(first, piece.rows);
  }
  NG_CHECK(false, index, piece.first_row);
  return {};
}

void GradientStream::add_up(const Sent& sent, size_t piece, const View& y) {
  SumTree<View> tree;
  const auto add = [&](const View& a, const View& b) { add_to(run_, a, b); };
  for (size_t rank = 0; rank < nodes_.size(); ++rank)
    for (size_t node = 0; node < nodes_[rank].size(); ++node)
      tree.push(nodes_[rank][node], sent.terms[piece][rank][node], add);
  const View sum = tree.finish(add);
  run_.execute(Combine{.y = y, .x = sum, .a = factor_, .b = 0});
}

void GradientStream::take_mean(const Sent& sent, size_t piece, const View& y) {
  const size_t index = sent.range.index;
  const Parameter& of = parameter(index);
  std::vector<ConstView> terms;
  for (const std::vector<View>& of_rank : sent.terms[piece]) terms.emplace_back(of_rank[0]);
  const auto ranks = static_cast<float>(terms.size());
  const bool on_ring = model_.gradient_recipe().reduce == GradientRecipe::Reduce::wire;
  SumOfRanks sum{.y = y,
                 .x = terms,
                 .rule = on_ring ? RankSum::ring : RankSum::exact,
                 .encode_scale = ranks,
                 .first = sent.pieces[piece].first_row * of.spec.cols,
                 .size = of.elements_of_whole(),
                 .largest = on_ring && of.auto_scale != nullptr ? &saturated_[index] : nullptr};
  if (shares_scale(index) && !run_.recording()) {
    const AutoScale scale = of.auto_scale != nullptr ? run_.read(of.auto_scale) : AutoScale{};
    sum.encode_scale = ranks * shared_encode_scale(of.communicate, run_.read(&amax_[index]),
                                                   of.auto_scale != nullptr ? &scale : nullptr);
  }
  run_.execute(sum);
}

void GradientStream::finish() {
  while (!scaling_.empty()) {
    dispatch(std::move(scaling_.front()));
    scaling_.pop_front();
  }
  for (Bucket& bucket : travelling_) arrive(bucket);
  travelling_.clear();
}

// `fp32` counts the codes of all ranks, `wire` those of their running sum. [errata-2, 31]
void GradientStream::move_scales(const StepControl* control) {
  if (saturated_.empty() || run_.recording() || run_.read(control).skip != 0) return;
  std::vector<uint64_t> saturated = run_.read(std::span<const uint64_t>(saturated_));
  run_.ranks().world().sum(saturated);
  const GradientRecipe& recipe = model_.gradient_recipe();
  const bool on_wire = recipe.reduce == GradientRecipe::Reduce::wire;
  for (size_t i = 0; i < saturated.size(); ++i) {
    const Parameter& of = parameter(i);
    if (of.auto_scale == nullptr) continue;
    AutoScale scale = run_.read(of.auto_scale);
    float good_steps = of.good_steps != nullptr ? run_.read(of.good_steps) : 0;
    move_auto_scale(
        {.scale = &scale,
         .codes = {},
         .threshold = recipe.auto_scale_delta,
         .window = recipe.growth_interval,
         .good_steps = of.good_steps != nullptr ? &good_steps : nullptr,
         .growth_after = recipe.auto_scale_growth_after},
        static_cast<int64_t>(saturated[i]),
        of.elements_of_whole() * of.spec.cut.parts * (on_wire ? 1 : ranks_.owners->ranks()));
    run_.upload(of.auto_scale, std::span<const AutoScale>(&scale, 1));
    if (of.good_steps != nullptr)
      run_.upload(of.good_steps, std::span<const float>(&good_steps, 1));
  }
}

}  // namespace ng
