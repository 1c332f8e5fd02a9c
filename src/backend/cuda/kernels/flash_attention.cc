// Causal attention by matrix units: a block takes 64 queries of a head, a warp 16 of them, and goes
// through the keys that they see by 64. Scores are products of BF16 summed in FP32; probabilities
// enter theirs rounded to BF16, or, where FP32 is wanted, as three such. What a query is given
// depends on the keys that it sees alone, not on other queries. [Dao 2023, Algorithm 1]
#include <cmath>
#include <limits>

#include "backend/cuda/kernels/fragments.h"
#include "math/log.h"

namespace ng::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kLn2 = 0.6931471805599453;

/// Of a lane's queries: the softmax so far, of scores times log2 e.
struct Softmax {
  float largest[2] = {-kInfinity, -kInfinity}, sums[2] = {};
};

/// out and lse of a block of queries. kCols: of a head, at most.
template <int kCols>
struct FlashForward {
  static constexpr int kBlocks = flash_blocks(kCols);
  static constexpr int kSteps = kCols / 16, kChunks = kFlashRows / 16;
  enum { keys, values };  // tiles

  FlashBlocks blocks;
  Heads heads;
  Target out, lse;
  Source q, k, v;
  AmaxPlace amax;
  uint32_t* left;

  __device__ void operator()() const {
    NG_SHARED_DYNAMIC(Quad, tiles);
    const FlashPlace at(blocks);
    const AttentionShape& s = heads.s;
    const int warp = static_cast<int>(threadIdx.x) / kWarp, d = s.head_dim;
    const int mine = warp * kWarpRows, start = static_cast<int>(s.first) + at.first;
    const int64_t row = at.sequence * s.length + at.first, kv_col = heads.kv_head(at.head) * d;
    HeldRows<kCols> query;
    load_tile<kCols>(tiles, keys, q, row, heads.query_col(at.head), at.rows, d);
    __syncthreads();
    query.take(tiles, keys, mine);
    const LaneQueries own(heads, at, row, mine);
    Softmax softmax;
    float acc[kSteps][2][4] = {};
    const int end = start + at.rows, warps_last = start + mine + kWarpRows - 1;
    bool is_odd = false;
    for (int j = first_tile(heads, row, at); j < end; j += kFlashRows) {
      const int64_t keys_row = heads.keys_row(row) + j;
      load_tile<kCols>(tiles, keys, k, keys_row, kv_col, end - j, d);
      is_odd |= load_tile<kCols>(tiles, values, v, keys_row, kv_col, end - j, d);
      __syncthreads();
      if (mine < at.rows && j <= warps_last) attend(acc, softmax, own, tiles, query, j, warps_last);
      __syncthreads();
    }
    Largest largest;
    if (mine < at.rows) largest = put(acc, softmax, own, at, row + mine);
    if (!tell_odd(is_odd, left[at.block])) amax.put(largest, static_cast<int>(threadIdx.x) % kWarp);
  }

 private:
  /// The keys of a tile, from j on.
  template <class Tiles>
  __device__ void attend(float (&acc)[kSteps][2][4], Softmax& softmax, const LaneQueries& own,
                         const Tiles& tiles, const HeldRows<kCols>& query, int j, int last) const {
    const int d = heads.s.head_dim;
    float p[kChunks][2][4] = {};
    NG_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (j + 16 * chunk > last) break;
      multiply_turned<kCols>(p[chunk], query, tiles, keys, 16 * chunk, d);
    }
    float rescale[2];
    to_probabilities(p, softmax, own, rescale, j);
    NG_UNROLL
    for (int pair = 0; pair < kSteps; ++pair) NG_UNROLL
    for (int i = 0; i < 8; ++i) acc[pair][i / 4][i % 4] *= rescale[i % 4 / 2];
    NG_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (j + 16 * chunk > last) break;
      multiply_straight<kCols>(acc, Factors(p[chunk], heads.are_rounded), tiles, values, 16 * chunk,
                               d);
    }
  }

  /// Products of queries and keys become e^(score - largest so far).
  __device__ void to_probabilities(float (&p)[kChunks][2][4], Softmax& softmax,
                                   const LaneQueries& own, float (&rescale)[2], int j) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const float scale = heads.scale * kLog2e;
    float next[2] = {softmax.largest[0], softmax.largest[1]}, from[2], sums[2] = {};
    NG_UNROLL
    for (int i = 0; i < 8 * kChunks; ++i) {
      const int of = i % 4 / 2;
      float& score = p[i / 8][i / 4 % 2][i % 4];
      score = own.see(of, j + 8 * (i / 4) + 2 * (lane % 4) + i % 2) ? score * scale : -kInfinity;
      next[of] = score > next[of] ? score : next[of];
    }
    NG_UNROLL
    for (int of = 0; of < 2; ++of) {
      for (const int distance : {1, 2}) {
        const float other = __shfl_xor_sync(~0u, next[of], distance);
        next[of] = other > next[of] ? other : next[of];
      }
      from[of] = next[of] == -kInfinity ? 0 : next[of];  // no key yet
      rescale[of] = exp2_approx(softmax.largest[of] - from[of]);
    }
    NG_UNROLL
    for (int i = 0; i < 8 * kChunks; ++i) {
      const int of = i % 4 / 2;
      float& score = p[i / 8][i / 4 % 2][i % 4];
      sums[of] += score = exp2_approx(score - from[of]);
    }
    NG_UNROLL
    for (int of = 0; of < 2; ++of) {
      softmax.largest[of] = next[of];
      softmax.sums[of] = std::fma(softmax.sums[of], rescale[of], sums[of]);
    }
  }

  /// Returns the largest of what goes to out, before it is rounded.
  __device__ Largest put(const float (&acc)[kSteps][2][4], const Softmax& softmax,
                         const LaneQueries& own, const FlashPlace& at, int64_t row) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    Largest largest;
    NG_UNROLL
    for (int of = 0; of < 2; ++of) {
      float sum = softmax.sums[of];
      for (const int distance : {1, 2}) sum += __shfl_xor_sync(~0u, sum, distance);
      if (own.last[of] < 0) continue;
      const int64_t to = row + lane / 4 + 8 * of;
      NG_UNROLL
      for (int i = 0; i < 4 * kSteps; ++i) {
        const int col = 8 * (i / 2) + 2 * (lane % 4) + i % 2;
        const float value = acc[i / 4][i / 2 % 2][2 * of + i % 2] / sum;
        if (col >= heads.s.head_dim) break;
        out.put(to, heads.query_col(at.head) + col, value);
        largest.take(value);
      }
      if (lane % 4 == 0)
        lse.put(to, at.head,
                static_cast<float>(kLn2 * softmax.largest[of] + math::log(double{sum})));
    }
    return largest;
  }
};

template <int kCols>
void flash_attention_of(Stream stream, const Attention& op, const Heads& heads,
                        const AmaxPlace& amax, uint32_t* left) {
  constexpr std::string_view kName = Attention::kName;
  const FlashBlocks blocks = query_blocks(op.shape);
  if (blocks.count() == 0) return;
  launch<flash<FlashForward<kCols>>>(
      stream,
      {.grid = {static_cast<unsigned>(blocks.count())},
       .block = {kFlashThreads},
       .shared = 2 * TileShape<kCols>::kSize * sizeof(Quad)},
      FlashForward<kCols>{blocks, heads, target_of(kName, op.out), target_of(kName, op.lse),
                          source_of(kName, op.q), source_of(kName, op.k), source_of(kName, op.v),
                          amax, left});
}

}  // namespace

void flash_attention(Stream stream, const Attention& op, const Heads& heads, const AmaxPlace& amax,
                     uint32_t* left) {
  if (heads.s.head_dim <= 64) return flash_attention_of<64>(stream, op, heads, amax, left);
  flash_attention_of<128>(stream, op, heads, amax, left);
}

}  // namespace ng::cuda
