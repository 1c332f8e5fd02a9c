// The ranks that train one model, by what they divide: neighbours divide every layer and the tokens
// between layers (tensor and sequence parallel), those with the same place among their neighbours
// divide the batch (data parallel). [Shoeybi et al. 2019, Megatron-LM; distributed.md §5]
#pragma once

#include <memory>

#include "comm/comm.h"

namespace ng {

class RankGroups {
 public:
  /// `world`, which outlives this, in groups of `tensor` ranks; null: this process alone. Called by
  /// all ranks. `tensor` divides them.
  explicit RankGroups(Comm* world, int tensor = 1);
  /// Devices of these ranks are gone: what they sent by is, too.
  ~RankGroups();
  RankGroups(const RankGroups&) = delete;
  RankGroups& operator=(const RankGroups&) = delete;

  /// All of them.
  [[nodiscard]] Comm& world() const { return *world_; }
  /// Those that have the same part of every layer and other micro-batches.
  [[nodiscard]] Comm& data() const { return *data_; }
  /// Those that have the same micro-batches and other parts of every layer.
  [[nodiscard]] Comm& tensor() const { return *tensor_; }

  /// Bytes that this rank has sent to others, in any group.
  [[nodiscard]] BytesByTraffic sent() const;

 private:
  std::unique_ptr<Comm> alone_, own_data_, own_tensor_;
  Comm *world_, *data_, *tensor_;
};

}  // namespace ng
