// A card that is emulated on the CPU: kernels of words.h, a fiber for each CUDA thread. It shows
// what a kernel computes and whether it keeps to the rules of the language; it cannot show speed,
// what instructions a compiler chose, or races that only a card's memory has.
//
// Blocks run one after another and threads are resumed in an order that a seed draws, in which a
// warp goes on alone for a while or as far as it can. What depends on the order differs between
// seeds. Stricter than a card: who ends before a barrier of the block, and lanes that shuffle from
// different lines, are faults.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "backend/cuda/card.h"
#include "backend/cuda/emulated/memory.h"
#include "backend/cuda/live.h"

namespace ng::cuda::emulated {

class Fibers;

class Device {
 public:
  /// `thread_order` 0: all in turn. `memory`: what is in reach while a kernel runs.
  explicit Device(const Card& card, uint64_t thread_order = 0, const Memory* memory = nullptr);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const Card& card() const { return card_; }

  /// Calls `body` once for each thread of the launch, until all have ended. Throws Fault for what a
  /// card would refuse or leave undefined, and what `body` throws.
  void launch(std::string_view kernel, const LaunchShape& shape, const std::function<void()>& body);

  /// Calls `work` behind the launches before, which the device does not do itself: a library's.
  void call(const std::function<void()>& work);

  /// From here on launches and calls are captured, in their order, instead of done.
  void begin_capture();
  /// What was captured, to be called as often as it is to be done; all that it was given is kept in
  /// it.
  std::vector<std::function<void()>> end_capture();
  [[nodiscard]] bool is_capturing() const { return captured_ != nullptr; }

  Live* live = nullptr;  ///< of a step that is captured

 private:
  void run(std::string_view kernel, const LaunchShape& shape, const std::function<void()>& body);

  const Card& card_;
  uint64_t thread_order_;
  const Memory* memory_;
  uint64_t launches_ = 0;
  std::unique_ptr<std::vector<std::function<void()>>> captured_;
  std::unique_ptr<Fibers> fibers_;
};

}  // namespace ng::cuda::emulated
