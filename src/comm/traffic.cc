#include "comm/traffic.h"

#include "base/error.h"
#include "tensor/view.h"

namespace ng {
namespace {

/// Scales of a whole tensor: the elements' own, or a second level.
uint64_t tensor_scales(const Operand& cast) {
  const bool has_one = !cast.is_unscaled() && cast.block.kind == Block::Kind::tensor;
  return (has_one ? 1 : 0) + (cast.tensor_scale != ScaleKind::none ? 1 : 0);
}

uint64_t& at(BytesByTraffic& bytes, Traffic kind) { return bytes[static_cast<size_t>(kind)]; }

/// What of a piece is sent to one other rank.
struct PieceBytes {
  uint64_t gradient = 0, gradient_scales = 0, weight = 0, weight_scales = 0;
};
PieceBytes bytes_of(const Piece& piece, const SentTensor& tensor) {
  const MatrixSize rows{piece.rows, tensor.size.cols};
  const bool has_level = tensor.gradient.tensor_scale != ScaleKind::none;
  const uint64_t levels = piece.first_row == 0 ? tensor_scales(tensor.weight) : 0;
  return {
      .gradient = payload_bytes(tensor.gradient, rows),
      .gradient_scales = block_scale_bytes(tensor.gradient, rows) + (has_level ? sizeof(float) : 0),
      .weight = payload_bytes(tensor.weight, rows),
      .weight_scales = block_scale_bytes(tensor.weight, rows) + levels * sizeof(float)};
}

/// Numbers that all ranks tell one another: amax for the scales of whole tensors, of weights where
/// more than one rank has rows of them, and counts of saturated codes.
uint64_t control_bytes(const Partition& partition, std::span<const SentTensor> tensors) {
  std::vector<bool> is_cut(tensors.size());
  for (const Piece& piece : partition.pieces)
    if (piece.first_row > 0) is_cut[static_cast<size_t>(piece.tensor)] = true;
  uint64_t bytes = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    bytes += tensor_scales(tensors[t].gradient) * sizeof(float);
    if (is_cut[t]) bytes += tensor_scales(tensors[t].weight) * sizeof(float);
    if (tensors[t].counts_saturation) bytes += sizeof(uint64_t);
  }
  return bytes;
}

}  // namespace

uint64_t block_scale_bytes(const Operand& cast, const MatrixSize& size) {
  if (cast.is_unscaled() || cast.block.kind == Block::Kind::tensor) return 0;
  const ScaleShape scales = scale_shape(cast, size.rows, size.cols);
  return static_cast<uint64_t>(scales.rows * scales.cols * scale_bits(cast) / 8);
}

uint64_t payload_bytes(const Operand& cast, const MatrixSize& size) {
  const int64_t stride = tight_stride(*cast.element, size.cols);
  return static_cast<uint64_t>(size.rows) * bytes_of(*cast.element, stride);
}

std::vector<BytesByTraffic> traffic_by_rank(const Partition& partition,
                                            std::span<const SentTensor> tensors) {
  const auto others = static_cast<uint64_t>(partition.ranks() - 1);
  std::vector<BytesByTraffic> sent(partition.loads.size());
  BytesByTraffic all{};  // of every rank, were it to own nothing
  at(all, Traffic::control) = others * control_bytes(partition, tensors);
  std::vector<PieceBytes> bytes;
  for (const Piece& piece : partition.pieces) {
    bytes.push_back(bytes_of(piece, tensors[static_cast<size_t>(piece.tensor)]));
    at(all, Traffic::gradients) += bytes.back().gradient;
    at(all, Traffic::scales) += bytes.back().gradient_scales;
  }
  for (BytesByTraffic& rank : sent) rank = all;
  for (size_t i = 0; i < bytes.size(); ++i) {
    BytesByTraffic& owner = sent[static_cast<size_t>(partition.pieces[i].owner)];
    at(owner, Traffic::gradients) -= bytes[i].gradient;
    at(owner, Traffic::scales) -= bytes[i].gradient_scales;
    at(owner, Traffic::weights) += others * bytes[i].weight;
    at(owner, Traffic::scales) += others * bytes[i].weight_scales;
  }
  return sent;
}

MeanPayload mean_payload(std::span<const SentTensor> tensors, int ranks) {
  NG_CHECK(ranks >= 1, ranks);
  uint64_t gradients = 0, weights = 0;
  for (const SentTensor& tensor : tensors) {
    gradients += payload_bytes(tensor.gradient, tensor.size);
    weights += payload_bytes(tensor.weight, tensor.size);
  }
  const auto share = [&](uint64_t bytes) {
    return static_cast<double>(bytes) * (ranks - 1) / ranks;
  };
  return {.gradients = share(gradients), .weights = share(weights)};
}

std::vector<SentTensor> all_sent_as(std::span<const SentTensor> tensors, std::string_view gradient,
                                    std::string_view weight) {
  std::vector<SentTensor> all;
  for (const SentTensor& tensor : tensors)
    all.push_back(
        {.size = tensor.size, .gradient = operand_of(gradient), .weight = operand_of(weight)});
  return all;
}

std::vector<SentTensor> wide_sent_as(std::span<const SentTensor> tensors, std::string_view gradient,
                                     std::string_view weight) {
  std::vector<SentTensor> all(tensors.begin(), tensors.end());
  for (SentTensor& tensor : all) {
    if (tensor.gradient.element->bits >= 16) tensor.gradient = operand_of(gradient);
    if (tensor.weight.element->bits >= 16) tensor.weight = operand_of(weight);
  }
  return all;
}

ActivationBytes activation_bytes(const Operand& gathered, const Operand& reduced) {
  const double gather = bits_per_value(gathered) / 8, reduce = bits_per_value(reduced) / 8;
  return {.three = 2 * gather + reduce, .five = 3 * gather + 2 * reduce};
}

}  // namespace ng
