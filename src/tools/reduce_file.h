// What the wire does to the gradients of a file: `narrowgauge reduce`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/threads.h"
#include "comm/comm.h"
#include "recipe/recipe.h"
#include "tools/tensor_input.h"

namespace ng {

struct ReduceFileSettings {
  uint32_t tensor_id = 0;  ///< of random keys, as `seed` and `step`
  uint64_t seed = 1;
  uint32_t step = 0;
  int64_t mu_k = 0;          ///< mu = 2^(mu_k / the recipe's growth_interval)
  int64_t accumulate = 1;    ///< micro-batches of a rank: rank i's key is that of i·accumulate
  TensorNames tensors = {};  ///< which of `in` are meant
  std::string backend = "cpu";
  Threads threads;            ///< of a rank that is a process
  uint64_t thread_order = 0;  ///< of an emulated card
};

struct ReduceFileReport {
  int64_t ranks = 0, rows = 0, cols = 0;
  std::string wire;         ///< "fp8_e4m3 scale pow2"
  bool is_ring = false;     ///< gradient.reduce = "wire"
  bool is_skipped = false;  ///< a gradient is not finite: nothing was reduced
  double snr_db = 0;        ///< of the mean against that of FP64; infinite where they are equal
  BytesByTraffic sent{};    ///< by all ranks together
  std::vector<uint64_t> saturated;  ///< codes of the largest magnitude of each rank
  uint64_t saturated_sums = 0;      ///< of the ring
  int64_t mu_k = 0;                 ///< of the next step
  std::vector<std::string> unread;  ///< tensors of `in` that mean nothing here
};

/// Reads `grad` (ranks, r, c), floats, from `in`. Rank i of `world` takes grad[i]; where that is
/// one rank, this process does what all of them would. Rank 0 writes to `out`
///   codes      (ranks, r, c)  as they are sent, one to an element: U8, U16; F32 of FP32
///   scale      (1), fl(1/S): what codes are multiplied by; where each rank has its own, (ranks,
///              blocks of rows, blocks of columns), and tensor_scale (ranks)
///   sum        (r, c) F32, in units of codes where ranks share a scale; `wire`: the ring's
///   mean       (r, c) F32, as owners have it
///   saturated  (ranks) I64
///   mu_k       (1) I64, of the next step
///   skip       (1) U8; 1: a gradient is not finite, and mu_k, which stays, is all there is
/// The report is that of rank 0, others have its beginning. Throws Error for what does not fit, and
/// on failures of files; `out` then stays as it was. [recipes.md §4.2; errata-2, 27-32]
ReduceFileReport reduce_file(const std::string& in, const std::string& out, const Recipe& recipe,
                             const ReduceFileSettings& settings, Comm& world);

}  // namespace ng
