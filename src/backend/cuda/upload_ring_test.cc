// The ring of uploads on an engine that copies as late as it may, or fails.
#include "backend/cuda/upload_ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace ng::cuda {
namespace {

/// What an engine did, which a test reads after the ring has ended, too.
struct Done {
  std::vector<size_t> sent;    ///< bytes of each piece
  std::vector<size_t> waited;  ///< for which piece
  size_t under_way = 0;
  bool is_alive = true;
  bool fails = false;  ///< to send, from now on
};

/// Copies when somebody waits, all up to that piece in their order.
class LateCopies final : public CopyEngine {
 public:
  explicit LateCopies(Done& done) : done_(done), pinned_(kUploadBytes) {}
  ~LateCopies() override { done_.is_alive = false; }
  LateCopies(const LateCopies&) = delete;
  LateCopies& operator=(const LateCopies&) = delete;

  std::byte* pinned() override { return pinned_.data(); }
  void send(size_t piece, std::byte* to, const std::byte* from, size_t bytes) override {
    if (done_.fails) throw std::runtime_error("a copy");
    copies_.push_back({piece, to, from, bytes});
    done_.sent.push_back(bytes);
    done_.under_way = copies_.size();
  }
  void wait(size_t piece) override {
    done_.waited.push_back(piece);
    bool is_last = false;
    while (!copies_.empty() && !is_last) {
      const Copy copy = copies_.front();
      std::memcpy(copy.to, copy.from, copy.bytes);
      is_last = copy.piece == piece;
      copies_.pop_front();
    }
    done_.under_way = copies_.size();
  }

 private:
  struct Copy {
    size_t piece;
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };

  Done& done_;
  std::vector<std::byte> pinned_;
  std::deque<Copy> copies_;
};

class Uploads : public testing::Test {
 protected:
  /// The engine copies all that is under way.
  void end() { ring_.reset(); }
  void upload(uint32_t& to, uint32_t value) { upload(&to, &value, sizeof value); }
  void upload(uint32_t* to, const uint32_t* from, size_t bytes) {
    ring_->upload(reinterpret_cast<std::byte*>(to), from, bytes);
  }

  Done done_;
  std::unique_ptr<UploadRing> ring_ =
      std::make_unique<UploadRing>(std::make_unique<LateCopies>(done_));
};

std::vector<uint32_t> numbers(size_t count) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), 1u);
  return all;
}

TEST_F(Uploads, AreOfWhatWasThereAtTheCall) {
  std::vector<uint32_t> from = numbers(1000), to(1000);
  const std::vector<uint32_t> want = from;
  upload(to.data(), from.data(), 4000);
  std::fill(from.begin(), from.end(), 0u);
  EXPECT_EQ(to[0], 0u) << "the engine was waited for";
  end();
  EXPECT_EQ(to, want);
  EXPECT_FALSE(done_.is_alive);
}

TEST_F(Uploads, ToOnePlaceEndInTheirOrder) {
  uint32_t to = 0;
  for (uint32_t value = 1; value <= 3 * kUploadPieces; ++value) upload(to, value);
  end();
  EXPECT_EQ(to, 3 * kUploadPieces);
}

TEST_F(Uploads, WaitOnlyWhereAllPiecesAreUnderWay) {
  std::vector<uint32_t> to(2 * kUploadPieces + 1);
  for (size_t i = 0; i < kUploadPieces; ++i) upload(to[i], static_cast<uint32_t>(i + 1));
  EXPECT_TRUE(done_.waited.empty());
  upload(to[kUploadPieces], kUploadPieces + 1);
  EXPECT_EQ(done_.waited, std::vector<size_t>{0});
  EXPECT_EQ(to[0], 1u);
  EXPECT_EQ(to[1], 0u) << "more was waited for than the one piece";
  for (size_t i = kUploadPieces + 1; i < to.size(); ++i)
    upload(to[i], static_cast<uint32_t>(i + 1));
  std::vector<size_t> each(kUploadPieces + 1);
  for (size_t i = 0; i < each.size(); ++i) each[i] = i % kUploadPieces;
  EXPECT_EQ(done_.waited, each);
  EXPECT_EQ(done_.under_way, kUploadPieces);
  end();
  EXPECT_EQ(done_.under_way, 0u);
  EXPECT_EQ(to, numbers(to.size()));
}

TEST_F(Uploads, LargerThanTheRingGoInPieces) {
  constexpr size_t kCount = 2 * kUploadBytes / sizeof(uint32_t) + 3;
  std::vector<uint32_t> from = numbers(kCount), to(kCount);
  upload(to.data(), from.data(), kCount * sizeof(uint32_t));
  std::vector<size_t> sent(2 * kUploadPieces, kUploadPieceBytes);
  sent.push_back(3 * sizeof(uint32_t));
  EXPECT_EQ(done_.sent, sent);
  EXPECT_EQ(done_.waited.size(), kUploadPieces + 1);
  std::fill(from.begin(), from.end(), 0u);
  end();
  EXPECT_EQ(to, numbers(kCount));
}

TEST_F(Uploads, OfNothingSendNothing) {
  upload(nullptr, nullptr, 0);
  EXPECT_TRUE(done_.sent.empty());
}

TEST_F(Uploads, GoOnBehindOneThatFailed) {
  std::vector<uint32_t> to(kUploadPieces);
  upload(to[0], 1);
  done_.fails = true;
  EXPECT_THROW(upload(to[1], 7), std::runtime_error);
  done_.fails = false;
  for (size_t i = 1; i < to.size(); ++i) upload(to[i], static_cast<uint32_t>(i + 1));
  EXPECT_TRUE(done_.waited.empty()) << "the piece that was not sent is waited for";
  end();
  EXPECT_EQ(to, numbers(to.size()));
}

}  // namespace
}  // namespace ng::cuda
