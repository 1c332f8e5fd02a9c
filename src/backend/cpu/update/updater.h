// One update on its way through the tensors, stretch by stretch.
#pragma once

#include <cstddef>
#include <optional>

#include "backend/cpu/update/elements.h"
#include "backend/cpu/update/search.h"
#include "backend/cpu/update/stored.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

/// What a worker makes of one stretch.
struct StretchBuffers {
  alignas(64) float g[kStretch], w[kStretch], m[kStretch], v[kStretch];
  alignas(64) float new_m[kStretch], new_v[kStretch];
  alignas(64) float x[kStretch], u[kStretch], y[kStretch];
  alignas(64) float elements[kStretch], rounded[kStretch], before[kStretch];
  alignas(64) int8_t carry[kStretch];
  StretchScratch scratch;
  ChunkBuffers chunk;
};
static_assert(sizeof(StretchBuffers) <= kWorkerScratchBytes);

/// Tensors of an update as codecs, and the passes over them. A scale that depends on a whole tensor
/// takes a pass in which everything is computed and nothing stored; the next computes the same
/// again. [recipes.md §4.2]
class Updater {
 public:
  Updater(Workspace& workspace, const Update& op);
  void run();
  /// What scales of whole tensors are made of; nothing is stored.
  [[nodiscard]] UpdateMaxima maxima();

 private:
  /// scales: of weights and moments; moments: of a first moment that takes back what rounding with
  /// those scales lost; probes: of precision_aware; store: the last.
  enum class Pass : uint8_t { scales, moments, probes, store };

  [[nodiscard]] bool is_direct() const;
  [[nodiscard]] bool has_feedback() const;
  /// The update as one of chunks; nothing where it isn't one.
  [[nodiscard]] std::optional<ChunkJob> chunk_job(Pass pass) const;
  void pass_chunks(Pass pass, const ChunkJob& job, int64_t first, int64_t count,
                   ChunkBuffers& b) const;
  void make_walk();
  void take_pass_memory();
  void pass(Pass pass);
  void note_maxima(const UpdateMaxima& maxima);
  void end_scales();

  void compute(const Stretch& at, StretchBuffers& b) const;
  void make_x(const Stretch& at, StretchBuffers& b, float step) const;
  void round_value(const Stretch& at, StretchBuffers& b) const;
  void note(const Stretch& at, StretchBuffers& b) const;
  void store(const Stretch& at, StretchBuffers& b, UpdateReport* report) const;
  void store_carry(const Stretch& at, StretchBuffers& b) const;
  void sum_residuals(const Stretch& at, StretchBuffers& b, float step) const;
  void round_residuals(const Stretch& at, StretchBuffers& b, int8_t* q) const;

  [[nodiscard]] ResidualRules residual_rules(float scale) const;
  [[nodiscard]] bool has_powers() const;
  [[nodiscard]] const int8_t* residuals(const Stretch& at, StretchBuffers& b) const;
  void put_residuals(const Stretch& at, const int8_t* q, StretchBuffers& b) const;

  // precision_aware.cc
  void find_step();
  void find_printed_step();
  void find_direction_of(const Stretch& at, const ChunkJob* job, StretchBuffers& b) const;
  void add_probes(const Stretch& at, const ChunkJob* job, StretchBuffers& b,
                  std::span<const float> alphas, double* squares) const;
  double norms_at(const ChunkJob* job, std::span<const float> alphas,
                  std::span<double> norms) const;
  [[nodiscard]] StepSample take_sample(const ChunkJob& job) const;

  Workspace& workspace_;
  const Update& op_;
  StoredCodec value_, master_, moment1_, moment2_, grad_;
  View carry_;
  StretchWalk walk_;
  bool is_flat_ = false;
  float grad_scale_ = 1;
  float step_ = 0;                   ///< lr, or α of precision_aware
  double* sums_ = nullptr;           ///< [items][kProbes + 1]
  float* sampled_ = nullptr;         ///< [2][kSampled] for precision_aware
  UpdateReport* reports_ = nullptr;  ///< [items], where somebody asks
};

}  // namespace ng::cpu
