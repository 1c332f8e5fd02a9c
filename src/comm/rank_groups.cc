#include "comm/rank_groups.h"

#include "base/error.h"

namespace ng {

RankGroups::RankGroups(Comm* world, int tensor)
    : alone_(one_rank()), world_(world != nullptr ? world : alone_.get()) {
  data_ = world_;
  tensor_ = alone_.get();
  if (tensor == 1) return;
  NG_CHECK(tensor > 1 && world_->ranks() % tensor == 0, tensor, world_->ranks());
  own_tensor_ = world_->split(world_->rank() / tensor);
  own_data_ = world_->split(world_->rank() % tensor);
  tensor_ = own_tensor_.get();
  data_ = own_data_.get();
  for (Comm* group : {tensor_, data_}) group->be_seen_in(*world_);
  // Communicators of NCCL whose messages cross on a card may wait for one another for ever.
  for (Comm* group : {world_, tensor_, data_}) group->go_by_hosts();
}

RankGroups::~RankGroups() {
  for (Comm* group : {world_, data_, tensor_}) group->device_messages().reset();
}

BytesByTraffic RankGroups::sent() const {
  BytesByTraffic sent = world_->sent();
  for (const Comm* group : {own_data_.get(), own_tensor_.get()})
    if (group != nullptr) add(sent, group->sent());
  return sent;
}

}  // namespace ng
