#include "train/gradient_stream.h"

#include <algorithm>
#include <utility>

#include "backend/gradient_scale.h"
#include "comm/gradient_pieces.h"
#include "comm/row_messages.h"

namespace ng {
namespace {

// Of a bucket: small enough that the first is on its way early, large enough that what a message
// costs by itself does not count.
constexpr int64_t kBucketElements = int64_t{1} << 22;

Tensor in_fp32(Run& run, Tensor tensor) {
  const View view = tensor.view();
  if (view.is(fp32_format())) return tensor;
  Tensor wide = run.tensor(view.rows, view.cols, fp32_format(), MemoryKind::gradients);
  run.execute(Copy{.y = wide, .x = view});
  return wide;
}

/// a += b, every sum rounded once to FP32.
auto adding(Run& run) {
  return [&run](const auto& a, const auto& b) { run.execute(Combine{.y = View(a), .x = View(b)}); };
}

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
      trees_(model.parameters().size()) {
  for (const std::vector<TreeNode>& of_rank : nodes_)
    most_nodes_ = std::max(most_nodes_, of_rank.size());
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

void GradientStream::add(size_t index, TreeNode node) {
  if (!parameter(index).grad || (!is_alone() && is_narrow(index))) return;
  trees_[index].push(node, in_fp32(run_, std::exchange(parameter(index).grad, {})), adding(run_));
}

void GradientStream::send(std::span<const size_t> parameters) {
  std::vector<size_t> bucket;
  int64_t elements = 0;
  for (const size_t index : parameters) {
    if (!parameter(index).grad && trees_[index].sums().empty()) continue;
    const int64_t more = parameter(index).value().size();
    if (!bucket.empty() && elements + more > kBucketElements) {
      begin(std::exchange(bucket, {}));
      elements = 0;
    }
    bucket.push_back(index);
    elements += more;
  }
  if (!bucket.empty()) begin(std::move(bucket));
}

bool GradientStream::shares_scale(size_t index) {
  return is_narrow(index) && ranks_share_scale(parameter(index).communicate);
}

// What a bucket waits for travels while the next one is computed.
void GradientStream::begin(std::vector<size_t> parameters) {
  Bucket& bucket = scaling_.emplace_back();
  bucket.parameters = std::move(parameters);
  find_scales(bucket);
  const auto scales = static_cast<std::ptrdiff_t>(bucket.amax != nullptr);
  while (std::ssize(scaling_) > scales) {
    dispatch(std::move(scaling_.front()));
    scaling_.pop_front();
  }
}

// One message for all tensors of the bucket.
void GradientStream::find_scales(Bucket& bucket) {
  for (const size_t i : bucket.parameters) {
    if (!shares_scale(i)) continue;
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
  for (const size_t i : bucket.parameters)
    if (shares_scale(i)) run_.upload(&amax_[i], std::span<const float>(&*of_all++, 1));
}

void GradientStream::dispatch(Bucket bucket) {
  take_scales(bucket);
  auto messages = std::make_shared<Messages>();
  for (const size_t index : bucket.parameters) {
    Sent& sent = bucket.sent.emplace_back(encode(index));
    if (!is_alone() && !stays_here(sent)) lay_out(sent, *messages);
  }
  if (!run_.recording() && !is_alone())
    bucket.ticket = ranks_.background->start(
        [messages](Comm& comm) { comm.exchange(messages->out, messages->in); });
  travelling_.push_back(std::move(bucket));
  if (travelling_.size() < 2) return;
  arrive(travelling_.front());
  travelling_.pop_front();
}

GradientStream::Sent GradientStream::encode(size_t index) {
  Sent sent;
  sent.index = index;
  sent.mine = std::exchange(trees_[index].sums(), {});
  if (!sent.mine.empty()) return sent;
  Parameter& of = parameter(index);
  finish_gradient(run_, of, shares_scale(index) ? &amax_[index] : nullptr);
  if (of.auto_scale != nullptr && model_.gradient_recipe().reduce == GradientRecipe::Reduce::fp32)
    run_.execute(CountLargest{&saturated_[index], of.grad});
  sent.codes = std::move(of.grad);
  sent.scales = std::exchange(of.grad_scales, {});
  return sent;
}

// Rows of what this rank sends. A scale that all share does not travel.
View GradientStream::term_of_mine(Sent& sent, size_t node, const Piece& piece) {
  if (!sent.mine.empty()) return rows_of(sent.mine[node].value.view(), piece);
  const Operand& cast = parameter(sent.index).communicate;
  View codes = sent.codes;
  if (sent.scales[0] && !ranks_share_scale(cast))
    codes.scales = {sent.scales[0].bytes(), sent.scales[0].view().element, cast.block,
                    sent.scales[1] ? sent.scales[1].view().as<float>().data : nullptr};
  return rows_of(codes, piece);
}

void GradientStream::lay_out(Sent& sent, Messages& messages) {
  const std::span<const Piece> pieces = model_.partition().of(static_cast<int64_t>(sent.index));
  const int own = ranks_.owners->rank();
  const auto me = static_cast<size_t>(own);
  const auto nodes = [&](size_t rank) { return sent.mine.empty() ? 1 : nodes_[rank].size(); };
  size_t room = 0;
  for (const Piece& piece : pieces)
    for (size_t rank = 0; rank < nodes_.size(); ++rank)
      if (piece.owner == own && rank != me)
        room += nodes(rank) * room_for(term_of_mine(sent, 0, piece));
  if (room > 0) sent.from_others = run_.bytes(room, MemoryKind::gradients);
  std::byte* at = room > 0 ? sent.from_others.bytes() : nullptr;
  for (const Piece& piece : pieces) {
    if (piece.owner != own) {
      for (size_t node = 0; node < nodes(me); ++node)
        append_to(term_of_mine(sent, node, piece), Traffic::gradients, piece.owner, messages.out);
      continue;
    }
    auto& terms = sent.terms.emplace_back(nodes_.size());
    for (size_t rank = 0; rank < nodes_.size(); ++rank)
      for (size_t node = 0; node < nodes(rank); ++node) {
        View& term = terms[rank].emplace_back(term_of_mine(sent, rank == me ? node : 0, piece));
        if (rank == me) continue;
        term = placed(term, at);
        at += room_for(term);
        append_from(term, static_cast<int>(rank), messages.in);
      }
  }
}

void GradientStream::arrive(Bucket& bucket) {
  if (!run_.recording() && !is_alone()) ranks_.background->wait(bucket.ticket);
  for (Sent& sent : bucket.sent) {
    if (stays_here(sent)) {
      SumTree<Tensor>& tree = trees_[sent.index];
      tree.sums() = std::move(sent.mine);
      parameter(sent.index).grad = tree.finish(adding(run_));
      continue;
    }
    size_t piece = 0;
    for (Parameter* owned : model_.owned_of(sent.index)) {
      owned->grad =
          run_.tensor(owned->spec.rows, owned->spec.cols, fp32_format(), MemoryKind::gradients);
      if (!sent.mine.empty())
        add_up(sent, piece, owned->grad);
      else
        take_mean(sent, piece, owned->grad, owned->first_row * owned->spec.cols);
      ++piece;
    }
    sent = {};
  }
}

void GradientStream::add_up(Sent& sent, size_t piece, const View& y) {
  SumTree<View> tree;
  for (size_t rank = 0; rank < nodes_.size(); ++rank)
    for (size_t node = 0; node < nodes_[rank].size(); ++node)
      tree.push(nodes_[rank][node], sent.terms[piece][rank][node], adding(run_));
  const View sum = tree.finish(adding(run_));
  run_.execute(Combine{.y = y, .x = sum, .a = factor_, .b = 0});
}

void GradientStream::take_mean(Sent& sent, size_t piece, const View& y, int64_t first) {
  const Parameter& of = parameter(sent.index);
  std::vector<ConstView> terms;
  for (const std::vector<View>& of_rank : sent.terms[piece]) terms.emplace_back(of_rank[0]);
  const auto ranks = static_cast<float>(terms.size());
  const bool on_ring = model_.gradient_recipe().reduce == GradientRecipe::Reduce::wire;
  SumOfRanks sum{
      .y = y,
      .x = terms,
      .rule = on_ring ? RankSum::ring : RankSum::exact,
      .encode_scale = ranks,
      .first = first,
      .size = of.elements_of_whole(),
      .largest = on_ring && of.auto_scale != nullptr ? &saturated_[sent.index] : nullptr};
  if (shares_scale(sent.index) && !run_.recording())
    sum.encode_scale =
        ranks * shared_encode_scale(of.communicate, run_.read(&amax_[sent.index]), of.auto_scale);
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
    move_auto_scale(
        {.scale = &scale,
         .codes = {},
         .threshold = recipe.saturation_threshold,
         .window = recipe.growth_interval},
        static_cast<int64_t>(saturated[i]),
        of.elements_of_whole() * of.spec.cut.parts * (on_wire ? 1 : ranks_.owners->ranks()));
    run_.upload(of.auto_scale, std::span<const AutoScale>(&scale, 1));
  }
}

}  // namespace ng
