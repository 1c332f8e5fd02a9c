#include "train/checkpoint.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "run/backends.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

/// A run whose state has a tensor of each element, in rows that do not fill their last bytes.
class StoredCheckpoint {
 public:
  explicit StoredCheckpoint(const char* backend) : run_(make_backend(backend, {2}), 1) {
    for (const ElementFormat& element : element_formats())
      views_.push_back(run_.persistent({.name = std::string(element.name),
                                        .owner = "test",
                                        .kind = MemoryKind::weights,
                                        .element = &element,
                                        .rows = 3,
                                        .cols = 5}));
  }

  Run& run() { return run_; }
  [[nodiscard]] std::vector<std::vector<std::byte>> bytes() {
    std::vector<std::vector<std::byte>> all;
    for (const View& view : views_) {
      all.emplace_back(view.bytes());
      run_.backend().download(all.back().data(), view.data, all.back().size());
    }
    return all;
  }
  /// Codes without any that is not finite: every byte below 2^6.
  void fill() {
    int next = 0;
    for (const View& view : views_) {
      std::vector<std::byte> codes(view.bytes());
      for (std::byte& code : codes) code = static_cast<std::byte>(next++ * 7 % 64);
      run_.upload(view.data, std::span<const std::byte>(codes));
    }
  }
  void put(std::string_view element, uint32_t code) {
    for (const View& view : views_)
      if (view.element->name == element)
        run_.upload(view.data,
                    std::as_bytes(std::span(&code, 1)).first(bytes_of(*view.element, 1)));
  }

 private:
  Run run_;
  std::vector<View> views_;
};

class Checkpoints : public ScratchFolder {
 protected:
  Checkpoints() { identity_.model = Json::object(); }
  void save(StoredCheckpoint& stored) const {
    save_checkpoint(folder_, 7, stored.run(), identity_, 1);
  }

  RunIdentity identity_;
};

TEST_F(Checkpoints, HoldTensorsOfEveryElementAsTheyAreStored) {
  for (const char* backend : {"ref", "cpu"}) {
    StoredCheckpoint before(backend), after(backend);
    before.fill();
    save(before);
    EXPECT_NE(after.bytes(), before.bytes());
    (void)restore_checkpoint({.step = 7, .path = in("step-00000007")}, after.run(), identity_);
    EXPECT_EQ(after.bytes(), before.bytes());
  }
}

TEST_F(Checkpoints, OfTheSameTextAreKnownByItsOlderChecksumToo) {
  StoredCheckpoint stored("ref");
  stored.fill();
  identity_.data = "of all";
  save(stored);
  identity_.data = "of pieces";
  const auto said = [&](const char* older) {
    identity_.older_data = [older] { return std::string(older); };
    return error_of([&] {
      (void)restore_checkpoint({.step = 7, .path = in("step-00000007")}, stored.run(), identity_);
    });
  };
  EXPECT_EQ(said("of all"), "accepted");
  EXPECT_NE(said("of another").find("the same text and tokenizer to resume"), std::string::npos);
}

TEST_F(Checkpoints, OfValuesThatAreNotFiniteAreRefusedByName) {
  for (const char* backend : {"ref", "cpu"})
    for (const auto& [element, code] :
         {std::pair("float32", 0x7F800000u), std::pair("bfloat16", 0xFF80u),
          std::pair("float16", 0xFC00u), std::pair("float8_e4m3fn", 0x7Fu)}) {
      StoredCheckpoint stored(backend);
      stored.fill();
      stored.put(element, code);
      EXPECT_NE(error_of([&] { save(stored); }).find(fmt::format("{}: 1 values", element)),
                std::string::npos)
          << backend;
    }
}

}  // namespace
}  // namespace ng
