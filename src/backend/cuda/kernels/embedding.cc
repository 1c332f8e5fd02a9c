// Vectors of tokens and positions, and rotary positions, each value rounded as in `ref`.
#include <algorithm>
#include <cmath>

#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/values.h"
#include "backend/layer_checks.h"
#include "math/sincos.h"

namespace ng::cuda {
namespace {

struct EmbedEach {
  Target y;
  const int32_t* ids;
  Source tokens, positions;
  Positions at;
  __device__ void operator()(int64_t t, int64_t c) const {
    float sum = tokens(ids[t], c);
    if (positions.rows > 0) sum += positions(at.first + t % at.length, c);
    y.put(t, c, sum);
  }
};

constexpr int kTokenThreads = 128;
constexpr int64_t kTokensAtOnce = 8 * kTokenThreads;  ///< looked at before anybody is asked
constexpr int kTokenWarps = kTokenThreads / kWarp;

/// Gradients of the token at place blockIdx.x, the first of its id, and of all others of that id in
/// their order: a thread has a column.
__global__ void __launch_bounds__(kTokenThreads)
    add_token_gradients(Target dtokens, Source dy, const int32_t* ids) {
  NG_SHARED(uint32_t, same, kTokenWarps);  // which of a warp's places have the id
  const int64_t place = blockIdx.x, col = int64_t{blockIdx.y} * kTokenThreads + threadIdx.x;
  const int32_t id = ids[place];
  const auto find = [&](bool is_same) {
    const uint32_t votes = __ballot_sync(~0u, is_same);
    if (threadIdx.x % kWarp == 0) same[static_cast<int>(threadIdx.x) / kWarp] = votes;
    __syncthreads();
  };
  for (int64_t first = 0; first < place; first += kTokensAtOnce) {
    bool is_later = false;
    for (int64_t i = first + threadIdx.x; i < first + kTokensAtOnce && i < place;
         i += kTokenThreads)
      is_later |= ids[i] == id;
    find(is_later);
    for (int w = 0; w < kTokenWarps; ++w)
      if (same[w] != 0) return;
    __syncthreads();  // all have read them
  }
  for (int64_t first = place; first < dy.rows; first += kTokenThreads) {
    const int64_t i = first + threadIdx.x;
    find(i < dy.rows && ids[i] == id);
    for (int w = 0; w < kTokenWarps && col < dy.cols; ++w)
      for (uint32_t left = same[w]; left != 0; left &= left - 1)
        dtokens.add(id, col, dy(first + w * kWarp + high_bit(left & -left), col));
    __syncthreads();
  }
}

/// Those of a position, one sequence after the other.
struct PositionGradientEach {
  Target dpositions;
  Source dy;
  Positions at;
  __device__ void operator()(int64_t position, int64_t c) const {
    for (int64_t t = position; t < dy.rows; t += at.length)
      dpositions.add(at.first + position, c, dy(t, c));
  }
};

constexpr int kMostFrequencies = 256;

/// As a kernel is passed it: made on the host, for pow() is not everywhere the same.
struct Frequencies {
  double of[kMostFrequencies];  ///< radians from one position to the next
};

struct RopeTableEach {
  Target table;
  Frequencies frequency;
  __device__ void operator()(int64_t position, int64_t i) const {
    constexpr double kTwoPi = 6.283185307179586;
    const double angle = static_cast<double>(position) * frequency.of[i];
    const math::SinCos turned = math::sincos_turns(angle / kTwoPi);
    table.put(position, i, static_cast<float>(turned.cos));
    table.put(position, table.cols / 2 + i, static_cast<float>(turned.sin));
  }
};

struct RopeEach {
  Target x;
  Source table;
  Positions at;
  int64_t half;
  bool inverse;
  __device__ void operator()(int64_t t, int64_t pair) const {
    const int64_t i = pair % half;
    const int64_t first = pair / half * 2 * half + i, second = first + half;
    const int64_t position = at.first + t % at.length;
    const float a = x(t, first), b = x(t, second);
    const float cos = table(position, i);
    const float sin = inverse ? -table(position, half + i) : table(position, half + i);
    x.put(t, first, a * cos - b * sin);
    x.put(t, second, b * cos + a * sin);
  }
};

}  // namespace

void perform(Stream stream, const Embed& op) {
  check_embedding(op.y, op.ids, op.tokens, op.positions, op.at);
  for_each_place(
      stream, op.y.rows, op.y.cols,
      EmbedEach{target_of("embed", op.y), op.ids.data(), source_of("embed", op.tokens, op.y),
                source_of("embed", op.positions, op.y), op.at});
}

void perform(Stream stream, const EmbedBackward& op) {
  check_embedding(op.dy, op.ids, op.dtokens, op.dpositions, op.at);
  constexpr std::string_view kName = EmbedBackward::kName;
  const Source dy = source_of(kName, op.dy);
  if (dy.rows * dy.cols == 0) return;
  launch<add_token_gradients>(stream,
                              {.grid = {blocks_of(dy.rows, 1), blocks_of(dy.cols, kTokenThreads)},
                               .block = {kTokenThreads}},
                              target_of(kName, op.dtokens), dy, op.ids.data());
  if (op.dpositions.rows > 0)
    for_each_place(stream, std::min(op.at.length, dy.rows), dy.cols,
                   PositionGradientEach{target_of(kName, op.dpositions), dy, op.at});
}

void perform(Stream stream, const RopeTable& op) {
  const int64_t half = op.table.cols / 2;
  NG_CHECK(op.table.cols % 2 == 0, op.table.cols);
  if (half > kMostFrequencies) throw Unsupported("cuda: rope_table of heads above 512");
  RopeTableEach rope{target_of("rope_table", op.table), {}};
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(op.table.cols);
    rope.frequency.of[i] = math::scaled_frequency(op.scaling, std::pow(op.theta, exponent));
  }
  for_each_place(stream, op.table.rows, half, rope);
}

void perform(Stream stream, const Rope& op) {
  check_rope(op);
  for_each_place(stream, op.x.rows, op.x.cols / 2,
                 RopeEach{target_of("rope", op.x), source_of("rope", op.table, op.x), op.at,
                          op.head_dim / 2, op.inverse});
}

}  // namespace ng::cuda
