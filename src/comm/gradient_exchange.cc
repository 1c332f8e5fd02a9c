#include "comm/gradient_exchange.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/gradient_sum.h"

namespace ng {
namespace {

using Bytes = std::vector<std::byte>;

/// All pieces to their owners. bytes_to(rank): what goes there; all ranks send this one as much.
template <class BytesTo, class Append>
Inbox exchange(Comm& comm, Traffic kind, const BytesTo& bytes_to, const Append& append) {
  Bytes out;
  std::vector<size_t> out_bytes;
  for (int rank = 0; rank < comm.ranks(); ++rank) {
    out_bytes.push_back(bytes_to(rank));
    append(rank, out);
  }
  Inbox in;
  in.sizes.assign(out_bytes.size(), out_bytes[static_cast<size_t>(comm.rank())]);
  in.bytes.resize(in.sizes.size() * in.sizes[0]);
  comm.all_to_all(kind, out, out_bytes, in.bytes, in.sizes);
  return in;
}

/// Scales of one rank are no other's: those of a shared one need not travel.
ConstView without_shared_scale(ConstView x, const Operand& cast) {
  if (ranks_share_scale(cast)) x.scales = {};
  return x;
}

/// Flat places in the tensor of a rank's pieces.
std::vector<int64_t> first_elements(std::span<const Piece> pieces, int owner, int64_t cols) {
  std::vector<int64_t> firsts;
  for (const Piece& piece : pieces)
    if (piece.owner == owner && piece.rows > 0) firsts.push_back(piece.first_row * cols);
  return firsts;
}

}  // namespace

HostGradient::HostGradient(const Backend& backend, const ConstView& x) : view_(x) {
  elements_.resize(bytes_of(*x.element, x.rows * x.stride));
  backend.download(elements_.data(), x.data, x.bytes());
  view_.data = elements_.data();
  if (!x.has_scales()) return;
  scales_.resize(bytes_of(*x.scales.element, x.scale_index(x.rows - 1, x.cols - 1) + 1));
  backend.download(scales_.data(), x.scales.data, scales_.size());
  view_.scales.data = scales_.data();
  if (x.scales.tensor == nullptr) return;
  backend.download(&level_, reinterpret_cast<const std::byte*>(x.scales.tensor), sizeof level_);
  view_.scales.tensor = &level_;
}

ReducedGradient reduce_gradient(Comm& comm, const ConstView& mine, const GradientWire& wire,
                                std::span<const Piece> pieces) {
  const ConstView sent = without_shared_scale(mine, wire.cast);
  const Inbox elements = exchange(
      comm, Traffic::gradients, [&](int to) { return element_bytes(sent, pieces, to); },
      [&](int to, Bytes& out) { append_elements(sent, pieces, to, out); });
  Inbox scales{{}, std::vector<size_t>(static_cast<size_t>(comm.ranks()))};
  if (sent.has_scales())
    scales = exchange(
        comm, Traffic::scales, [&](int to) { return scale_bytes(sent, pieces, to); },
        [&](int to, Bytes& out) { append_scales(sent, pieces, to, out); });

  const auto ranks = static_cast<size_t>(comm.ranks());
  const GradientDecoder decoder(*sent.element);
  std::vector<std::vector<ReceivedPiece>> received;
  for (size_t rank = 0; rank < ranks; ++rank)
    received.push_back(
        received_pieces(sent, pieces, comm.rank(), elements.of(rank), scales.of(rank)));
  const std::vector<int64_t> firsts = first_elements(pieces, comm.rank(), sent.cols);
  ReducedGradient reduced;
  for (size_t piece = 0; piece < firsts.size(); ++piece) {
    std::vector<std::vector<float>> values;
    for (size_t rank = 0; rank < ranks; ++rank)
      values.push_back(decoder.values(received[rank][piece]));
    const std::vector<float> sum = wire.reduce == GradientRecipe::Reduce::wire
                                       ? ring_sum(*sent.element, values, firsts[piece], sent.size())
                                       : exact_sum(values);
    reduced.sum.insert(reduced.sum.end(), sum.begin(), sum.end());
  }
  reduced.largest = count_largest(*sent.element, reduced.sum);
  reduced.mean = mean_of_sum(reduced.sum, static_cast<float>(ranks) * wire.encode_scale);
  return reduced;
}

float amax_of(std::span<const float> values) {
  float amax = 0;
  for (const float x : values) {
    if (!std::isfinite(x)) return std::numeric_limits<float>::quiet_NaN();
    amax = std::max(amax, std::fabs(x));
  }
  return amax;
}

}  // namespace ng
