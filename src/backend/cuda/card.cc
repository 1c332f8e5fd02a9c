#include "backend/cuda/card.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace ng::cuda {
namespace {

constexpr Card kCards[] = {
    {.name = "sm_80", .sm = 80, .shared_per_block = 163 * 1024},
    {.name = "sm_89", .sm = 89, .shared_per_block = 99 * 1024},
    {.name = "sm_90", .sm = 90, .shared_per_block = 227 * 1024},
    {.name = "sm_100", .sm = 100, .shared_per_block = 227 * 1024},
    {.name = "sm_120", .sm = 120, .shared_per_block = 99 * 1024},
};

}  // namespace

std::span<const Card> cards() { return kCards; }

const Card& card_of(int sm) {
  const auto* card = std::ranges::find(kCards, sm, &Card::sm);
  NG_CHECK(card != std::end(kCards), sm);
  return *card;
}

const Card& card_like(int sm) {
  const auto* newer = std::ranges::upper_bound(kCards, sm, {}, &Card::sm);
  NG_CHECK(newer != std::begin(kCards), sm);
  return *std::prev(newer);
}

}  // namespace ng::cuda
