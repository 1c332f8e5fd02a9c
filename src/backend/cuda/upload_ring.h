// Uploads that do not wait for the card: the host copies bytes into pinned memory, from which the
// card fetches them behind what was launched. Who has no card tests it with another CopyEngine.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace ng::cuda {

/// Of an UploadRing. At 50 GB/s the card fetches one in about the time that launching a copy takes.
inline constexpr size_t kUploadPieceBytes = size_t{64} << 10;
inline constexpr size_t kUploadPieces = 64;
inline constexpr size_t kUploadBytes = kUploadPieces * kUploadPieceBytes;

/// What copies between the host's memory and the card's.
class CopyEngine {
 public:
  CopyEngine() = default;
  virtual ~CopyEngine() = default;
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  /// kUploadBytes of the host that the card may read, as long as this lives.
  [[nodiscard]] virtual std::byte* pinned() = 0;
  /// Behind all that was launched, and is piece `piece` until it has ended. Where it throws, the
  /// card does not read `from` any more.
  virtual void send(size_t piece, std::byte* to, const std::byte* from, size_t bytes) = 0;
  /// Until what was last sent as this piece has ended.
  virtual void wait(size_t piece) = 0;
};

/// Pieces of pinned memory, one after another, round and round. Of any thread.
class UploadRing {
 public:
  explicit UploadRing(std::unique_ptr<CopyEngine> engine) : engine_(std::move(engine)) {}
  /// The card reads nothing of it any more.
  ~UploadRing() {
    for (size_t piece = 0; piece < kUploadPieces; ++piece) {
      try {
        wait_for(piece);
      } catch (const std::exception&) {
        sent_.reset(piece);  // of a card that failed, which fetches nothing
      }
    }
  }
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  /// Behind all that was launched; `from` is the caller's again on return. Waits where all pieces
  /// are under way.
  void upload(std::byte* to, const void* from, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto* const begin = static_cast<const std::byte*>(from);
    for (size_t done = 0; done < bytes; done += kUploadPieceBytes)
      upload_piece(to + done, begin + done, std::min(bytes - done, kUploadPieceBytes));
  }

 private:
  void upload_piece(std::byte* to, const std::byte* from, size_t bytes) {
    wait_for(next_);
    std::byte* const piece = engine_->pinned() + next_ * kUploadPieceBytes;
    std::memcpy(piece, from, bytes);
    engine_->send(next_, to, piece, bytes);
    sent_.set(next_);
    next_ = (next_ + 1) % kUploadPieces;
  }
  void wait_for(size_t piece) {
    if (!sent_.test(piece)) return;
    engine_->wait(piece);
    sent_.reset(piece);
  }

  std::unique_ptr<CopyEngine> engine_;
  std::mutex mutex_;
  std::bitset<kUploadPieces> sent_;  ///< and not yet known to have ended
  size_t next_ = 0;
};

}  // namespace ng::cuda
