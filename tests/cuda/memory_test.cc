// The card's memory is out of the host's reach, and whole training does without.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>

#include "backend/backend_memory.h"
#include "backend/cuda/upload_ring.h"
#include "card_runs.h"
#include "comm/memory_messages.h"
#include "comm/thread_ranks.h"

namespace ng {
namespace {

std::unique_ptr<Backend> card_apart() { return make_emulated_cuda_backend({}); }

TinyRunOptions apart(const std::string& recipe) {
  TinyRunOptions options = options_of(tiny_llama(), recipe, kCard);
  options.make_backend = card_apart;
  return options;
}

TEST(CudaMemory, TheHostThatTouchesItEnds) {
  const std::unique_ptr<Backend> card = card_apart();
  std::byte* const memory = card->allocate(100);
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile std::byte*>(memory)), "");
  EXPECT_DEATH(*static_cast<volatile std::byte*>(memory) = std::byte{1}, "");
  card->release(memory, 100);
}

TEST(CudaMemory, CopiesReachIt) {
  const std::unique_ptr<Backend> card = card_apart();
  std::byte* const memory = card->allocate(8);
  const double there = 1.5;
  double back = 0;
  card->upload(memory, &there, 8);
  card->download(&back, memory, 8);
  EXPECT_EQ(back, there);
  card->release(memory, 8);
  std::byte* const again = card->allocate(8);
  EXPECT_EQ(again, memory);
  card->download(&back, again, 8);
  EXPECT_EQ(back, 0.0);
  card->release(again, 8);
}

// What is uploaded is there for all that comes behind it, though the card fetches it late, and the
// host waits only where more is under way than the ring holds.
TEST(CudaMemory, UploadsAreThereForWhatComesBehind) {
  std::atomic<int64_t> waits = 0;
  const auto card = make_emulated_cuda_backend({.host_waits = &waits});
  constexpr int64_t kCount = cuda::kUploadBytes / sizeof(float) + 1000;
  const BackendMemory x(*card, kCount * sizeof(float)), sum(*card, sizeof(double));
  std::vector<float> values(kCount, 0.5f);
  card->upload(x.data(), values.data(), kCount * sizeof(float));
  EXPECT_GT(waits, 0);
  waits = 0;
  values.assign(1, 3.0f);
  card->upload(x.data(), values.data(), sizeof(float));
  card->execute(
      AddSumOfSquares{reinterpret_cast<double*>(sum.data()), View(x.floats(), 1, kCount, kCount)});
  EXPECT_EQ(waits, 0);
  double got = 0;
  card->download(&got, sum.data(), sizeof got);
  EXPECT_EQ(got, 9 + 0.25 * (kCount - 1));
  EXPECT_EQ(waits, 1);
}

TEST(CudaMemory, TrainingLeavesItToTheCard) {
  for (const std::string recipe : {"mxfp4-sr-rht", "quartet2", "averis", "gaussws-all", "nipq",
                                   "fp8-lm", "precision-aware-fp8", "muon", "coat-adamw"})
    EXPECT_EQ(trained(apart(recipe), 1).losses.size(), 1u) << recipe;
  TinyRunOptions of_pairs = apart("bf16");
  of_pairs.dpo.emplace();
  EXPECT_EQ(trained(of_pairs, 1).losses.size(), 1u);
}

/// What the ranks end with.
std::vector<Trained> trained_by(TinyRunOptions options, int ranks, int64_t steps) {
  std::vector<Trained> all(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Comm& comm) {
    TinyRunOptions mine = options;
    mine.comm = &comm;
    all[static_cast<size_t>(comm.rank())] = trained(mine, steps);
  });
  return all;
}

// The second divides its states, in FP8 with scales of whole tensors, among the ranks.
TEST(CudaMemory, RanksAreOneProcessToTheBit) {
  std::vector<TinyRunOptions> all = {apart("mxfp4-sr-rht"), apart("fp8-lm")};
  all[1].recipe =
      "name = 'divided'\ninherit = 'fp8-lm'\ngradient = { communicate = 'fp32', reduce = 'fp32', "
      "auto_scale = false, shard = 'flat' }";
  for (TinyRunOptions& options : all) {
    SCOPED_TRACE(options.recipe);
    options.determinism = Determinism::global;
    const std::vector<Trained> two = trained_by(options, 2, 2);
    options.micros = 2;
    const Trained one = trained(options, 2);
    for (const Trained& of_rank : two) {
      EXPECT_EQ(of_rank.losses, one.losses);
      EXPECT_EQ(of_rank.weights, one.weights);
    }
  }
}

TEST(CudaMemory, CardsSendByThemselvesWhereEachIsAnother) {
  for (const bool has_messages : {true, false})
    run_ranks(3, [&](Comm& comm) {
      const auto card = make_emulated_cuda_backend({.has_messages = has_messages});
      std::byte* const memory = card->allocate(6);
      const auto rank = static_cast<uint8_t>(comm.rank());
      const uint8_t pieces[] = {rank, static_cast<uint8_t>(rank + 10),
                                static_cast<uint8_t>(rank + 20)};
      card->upload(memory, pieces, 3);
      all_to_all(comm, *card, Traffic::activations, {memory, 3}, {memory + 3, 3});
      std::array<uint8_t, 3> all{};
      card->download(all.data(), memory + 3, 3);
      const auto first = static_cast<uint8_t>(10 * rank);
      EXPECT_EQ(all, (std::array<uint8_t, 3>{first, static_cast<uint8_t>(first + 1),
                                             static_cast<uint8_t>(first + 2)}));
      card->upload(memory + 3 + rank, &rank, 1);
      all_gather(comm, *card, Traffic::weights, {memory + 3, 3});
      card->download(all.data(), memory + 3, 3);
      EXPECT_EQ(all, (std::array<uint8_t, 3>{0, 1, 2}));
      EXPECT_EQ(comm.device_messages().value() != nullptr, has_messages);
      card->release(memory, 6);
    });
}

// Messages from card to card change no bit, nor what is counted: gradients, weights, parts of
// layers.
TEST(CudaMemory, MessagesFromCardToCardAreThoseThroughTheHosts) {
  std::vector<TinyRunOptions> all = {apart("fp8-lm"), apart("mxfp4-sr-rht"), apart("fp32")};
  all[1].determinism = Determinism::global;
  all[2].tensor = all[2].model.kv_heads = 2;
  all[2].length = 12;
  for (TinyRunOptions& options : all) {
    SCOPED_TRACE(options.recipe);
    const std::vector<Trained> by_hosts = trained_by(options, 2, 2);
    options.make_backend = [] { return make_emulated_cuda_backend({.has_messages = true}); };
    const std::vector<Trained> by_cards = trained_by(options, 2, 2);
    for (size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(by_cards[rank].losses, by_hosts[rank].losses);
      EXPECT_EQ(by_cards[rank].weights, by_hosts[rank].weights);
      EXPECT_EQ(by_cards[rank].sent, by_hosts[rank].sent);
    }
  }
}

/// Two ranks on the card end beside those on the CPU: losses, and weights within a hundredth of how
/// far a step moves them. Where nothing is exchanged they end some tenths of a step away.
void expect_ranks_of_cpu(TinyRunOptions options, double most) {
  const Trained got = trained_by(options, 2, 2)[0];
  options.make_backend = nullptr;
  options.backend = "cpu";
  const Trained want = trained_by(options, 2, 2)[0];
  for (size_t step = 0; step < want.losses.size(); ++step)
    EXPECT_NEAR(got.losses[step], want.losses[step], most) << step;
  double off = 0;
  for (size_t i = 0; i < want.weights.size(); ++i)
    off += std::fabs(got.weights[i] - want.weights[i]);
  EXPECT_LT(off / static_cast<double>(want.weights.size()), 0.01 * TinyRun::kRate);
}

TEST(CudaMemory, RanksSendFp8AsThoseOfTheCpu) { expect_ranks_of_cpu(apart("fp8-lm"), 1e-2); }

TEST(CudaMemory, RanksDivideLayersAsThoseOfTheCpu) {
  TinyRunOptions options = apart("fp32");
  options.tensor = options.model.kv_heads = 2;
  options.length = 12;
  expect_ranks_of_cpu(options, 1e-5);
}

}  // namespace
}  // namespace ng
