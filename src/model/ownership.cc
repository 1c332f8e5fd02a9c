#include "model/ownership.h"

#include <algorithm>

#include "recipe/layer_names.h"

namespace ng {
namespace {

// Scales of blocks that pieces have whole. One of the whole tensor can be made of what all pieces
// find, a second level above it cannot.
bool has_separate_rows(const Operand& cast, bool can_share) {
  if (cast.is_unscaled()) return true;
  if (cast.tensor_scale != ScaleKind::none) return false;
  switch (cast.block.kind) {
    case Block::Kind::row:
      return true;
    case Block::Kind::tile:
      return kPieceRows % cast.block.rows == 0;
    case Block::Kind::tensor:
      return can_share;
    default:
      return false;
  }
}

// Rules that give back what rounding loses know the values only when the scale is known.
bool rounds_once(const WeightStorage& storage) {
  if (storage.master != WeightStorage::Master::none || storage.storage.is_unscaled()) return true;
  return !storage.momentum_feedback &&
         (storage.update == UpdateRule::nearest || storage.update == UpdateRule::stochastic);
}

// Blocks of Adam-mini's second moments and Muon's matrices are of many rows but for tables of
// tokens, which have one per row or take AdamW.
bool moves_rows_apart(const ParameterSpec& spec, OptimizerRecipe::Kind kind) {
  using Kind = OptimizerRecipe::Kind;
  if (kind == Kind::adamw || kind == Kind::sgd) return true;
  const std::string_view layer = layers::layer_of(spec.name);
  return layer == layers::kEmbed || layer == layers::kHead;
}

bool has_noise(const ParameterSpec& spec, const Recipe& recipe, int64_t depth) {
  return recipe.layer(layer_place(spec, depth), 0).weight_noise.kind != NoiseKind::none;
}

// What noise learns goes to the owner of its weight.
void give_to_weights(std::span<const ParameterSpec> parameters, Partition& dealt) {
  for (Piece& piece : dealt.pieces) {
    const std::string& name = parameters[static_cast<size_t>(piece.tensor)].name;
    const std::string_view layer = layers::layer_of(name);
    if (name != layers::bits_of(layer) && name != layers::clip_of(layer)) continue;
    for (const Piece& other : dealt.pieces)
      if (parameters[static_cast<size_t>(other.tensor)].name == layers::weight_of(layer)) {
        const int64_t elements = piece.rows * parameters[static_cast<size_t>(piece.tensor)].cols;
        dealt.loads[static_cast<size_t>(piece.owner)] -= elements;
        dealt.loads[static_cast<size_t>(other.owner)] += elements;
        piece.owner = other.owner;
      }
  }
}

/// Pieces and loads of what every rank of a tensor group has its part of.
void add_cut(const Partition& cut, int tensor, Partition& all) {
  all.pieces.insert(all.pieces.end(), cut.pieces.begin(), cut.pieces.end());
  std::stable_sort(all.pieces.begin(), all.pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.tensor < b.tensor; });
  for (size_t rank = 0; rank < all.loads.size(); ++rank)
    all.loads[rank] += cut.loads[rank / static_cast<size_t>(tensor)];
}

}  // namespace

bool has_separate_rows(const ParameterSpec& spec, const WeightStorage& storage,
                       const OptimizerRecipe& optimizer) {
  using Kind = OptimizerRecipe::Kind;
  const bool can_share = optimizer.kind == Kind::adamw || optimizer.kind == Kind::sgd;
  const bool has_shared_master = storage.master == WeightStorage::Master::fp16;
  return !spec.is_vector && has_separate_rows(storage.storage, can_share) &&
         (can_share || !has_shared_master) && rounds_once(storage) &&
         storage.update != UpdateRule::precision_aware &&
         has_separate_rows(optimizer.moment1, can_share) &&
         has_separate_rows(optimizer.moment2, can_share) && moves_rows_apart(spec, optimizer.kind);
}

Partition deal_parameters(std::span<const ParameterSpec> parameters, const Recipe& recipe,
                          int64_t depth, const RankCounts& ranks, GradientRecipe::Shard shard,
                          WeightGather gather) {
  std::vector<MatrixSize> whole, cut;
  for (const ParameterSpec& spec : parameters) {
    const MatrixSize size{
        .rows = spec.rows,
        .cols = spec.cols,
        .is_whole = has_noise(spec, recipe, depth) ||
                    !has_separate_rows(spec, kept_weight(recipe, spec, depth, gather).storage,
                                       recipe.settings(0).optimizer)};
    whole.push_back(spec.cut || spec.is_frozen ? MatrixSize{} : size);
    cut.push_back(spec.cut && !spec.is_frozen ? size : MatrixSize{});
  }
  Partition dealt = partition(whole, ranks.all(), shard);
  if (ranks.tensor > 1) add_cut(partition(cut, ranks.data, shard), ranks.tensor, dealt);
  give_to_weights(parameters, dealt);
  return dealt;
}

}  // namespace ng
