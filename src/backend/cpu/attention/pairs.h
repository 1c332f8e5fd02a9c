// The products of attention by dot products of BF16 pairs: on CPUs where these are two steps of an
// FMA chain, in the order and with the bits of product.h.
#pragma once

#include "backend/cpu/attention/matrix.h"

namespace ng::cpu {

/// Whether tensors stored so are multiplied by pairs. `floats`: what the tiles take besides the
/// pairs of up to two matrices of queries, two of keys and two of weights.
[[nodiscard]] bool takes_pairs(const ConstView& stored, const AttentionTiles& tiles,
                               int64_t floats);

/// As find_scores, where no value, product or sum can be subnormal, which dot products would take
/// for zero; false, and nothing done, where one could.
[[nodiscard]] bool find_scores_by_pairs(TileMatrix& keys, TileMatrix& queries, float* scores,
                                        const AttentionTiles& tiles, const Visible& visible);

/// As add_over_keys and add_over_queries of weights rounded to BF16, subnormals as zeros; false,
/// and nothing done, where x is not finite: what is not seen is multiplied by 0. Of sums `edge`
/// rows are written to.
[[nodiscard]] bool add_over_keys_by_pairs(const TileWeights& weights, TileMatrix& x, float* sums,
                                          const AttentionTiles& tiles, const Visible& visible);
[[nodiscard]] bool add_over_queries_by_pairs(const TileWeights& weights, TileMatrix& x,
                                             const Rows<float>& sums, const AttentionTiles& tiles,
                                             const Visible& visible);

}  // namespace ng::cpu
