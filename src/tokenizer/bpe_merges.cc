#include "tokenizer/bpe_merges.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/error.h"

namespace ng {
namespace {

// Up to here looking through all ranks for the lowest is quicker than a heap.
constexpr size_t kFew = 48;
constexpr uint32_t kNothing = UINT32_MAX;  // no symbol before or behind
constexpr int32_t kGone = -1;              // id of what became part of the symbol before it

}  // namespace

BpeMerges::BpeMerges(size_t count) {
  slots_.resize(std::bit_ceil(std::max<size_t>(16, 2 * count)));
  shift_ = 64 - std::countr_zero(slots_.size());
}

void BpeMerges::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  --shift_;
  used_ = 0;
  for (const Slot& slot : old)
    if (slot.pair != kFree)
      add(int32_t(slot.pair >> 32), int32_t(slot.pair & UINT32_MAX), slot.merge);
}

void BpeMerges::add(int32_t left, int32_t right, Merge merge) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  const uint64_t pair = pair_of(left, right);
  size_t slot = slot_of(pair);
  while (slots_[slot].pair != kFree && slots_[slot].pair != pair)
    slot = (slot + 1) & (slots_.size() - 1);
  if (slots_[slot].pair == kFree) ++used_;
  slots_[slot] = {pair, merge};
}

void BpeMerges::apply(std::vector<Symbol>& symbols, MergeScratch& scratch) const {
  if (symbols.size() <= kFew)
    apply_to_few(symbols, scratch);
  else
    apply_to_many(symbols, scratch);
}

void BpeMerges::apply_to_few(std::vector<Symbol>& symbols, MergeScratch& scratch) const {
  std::vector<uint32_t>& ranks = scratch.ranks;
  ranks.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    ranks.push_back(find(symbols[i].id, symbols[i + 1].id).rank);
  while (!ranks.empty()) {
    const auto lowest = std::min_element(ranks.begin(), ranks.end());
    if (*lowest == kNone) return;
    const auto at = static_cast<size_t>(lowest - ranks.begin());
    symbols[at] = {find(symbols[at].id, symbols[at + 1].id).id,
                   symbols[at].bytes + symbols[at + 1].bytes};
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    ranks.erase(lowest);
    if (at > 0) ranks[at - 1] = find(symbols[at - 1].id, symbols[at].id).rank;
    if (at < ranks.size()) ranks[at] = find(symbols[at].id, symbols[at + 1].id).rank;
  }
}

// A heap of (rank, place) with entries that time has overtaken: one counts if the pair at its place
// has its rank still.
void BpeMerges::apply_to_many(std::vector<Symbol>& symbols, MergeScratch& scratch) const {
  NG_CHECK(symbols.size() < kNothing, symbols.size());
  const auto count = static_cast<uint32_t>(symbols.size());
  std::vector<uint32_t>& next = scratch.next;
  std::vector<uint32_t>& before = scratch.before;
  std::vector<uint64_t>& waiting = scratch.waiting;
  next.resize(count);
  before.resize(count);
  waiting.clear();
  for (uint32_t i = 0; i < count; ++i) {
    before[i] = i == 0 ? kNothing : i - 1;
    next[i] = i + 1 == count ? kNothing : i + 1;
    if (i + 1 == count) break;
    const Merge merge = find(symbols[i].id, symbols[i + 1].id);
    if (merge.rank != kNone) waiting.push_back(uint64_t(merge.rank) << 32 | i);
  }
  const auto later = std::greater<uint64_t>();
  std::make_heap(waiting.begin(), waiting.end(), later);
  const auto wait = [&](uint32_t at) {
    if (at == kNothing || next[at] == kNothing) return;
    const Merge merge = find(symbols[at].id, symbols[next[at]].id);
    if (merge.rank == kNone) return;
    waiting.push_back(uint64_t(merge.rank) << 32 | at);
    std::push_heap(waiting.begin(), waiting.end(), later);
  };
  while (!waiting.empty()) {
    const auto at = static_cast<uint32_t>(waiting.front());
    const auto rank = static_cast<uint32_t>(waiting.front() >> 32);
    std::pop_heap(waiting.begin(), waiting.end(), later);
    waiting.pop_back();
    const uint32_t right = next[at];
    if (symbols[at].id == kGone || right == kNothing) continue;
    const Merge merge = find(symbols[at].id, symbols[right].id);
    if (merge.rank != rank) continue;
    symbols[at] = {merge.id, symbols[at].bytes + symbols[right].bytes};
    symbols[right].id = kGone;
    next[at] = next[right];
    if (next[at] != kNothing) before[next[at]] = at;
    wait(before[at]);
    wait(at);
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.id == kGone; });
}

}  // namespace ng
