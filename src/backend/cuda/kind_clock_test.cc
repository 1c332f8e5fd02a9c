// Times by kind of a device whose clock the test sets.
#include "backend/cuda/kind_clock.h"

#include <gtest/gtest.h>

namespace ng::cuda {
namespace {

class SetMoments final : public Moments {
 public:
  explicit SetMoments(const double& now) : now_(now) {}
  void note(size_t i) override {
    noted_.resize(i + 1);
    noted_[i] = now_;
  }
  [[nodiscard]] double seconds(size_t from, size_t to) const override {
    return noted_.at(to) - noted_.at(from);
  }

 private:
  const double& now_;
  std::vector<double> noted_;
};

double seconds_of(const TimeByKind& all, TimeKind kind) { return all[static_cast<size_t>(kind)]; }

// An upload ends a kind and waits for nothing: what comes behind it is measured by itself, and all
// is there when a value is read.
TEST(KindClock, LeavesOutWhatUploadsTake) {
  double now = 0;
  KindClock clock(std::make_unique<SetMoments>(now));
  TimeByKind all{};
  clock.end();  // an upload before all operations
  now = 1;
  clock.begin(TimeKind::attention);
  now = 3;
  clock.end();  // an upload
  now = 10;
  clock.end();  // another
  now = 11;
  clock.begin(TimeKind::attention);
  now = 15;
  clock.begin(TimeKind::optimizer);
  now = 20;
  clock.end();  // a download
  clock.collect(all);
  EXPECT_EQ(seconds_of(all, TimeKind::attention), (3 - 1) + (15 - 11));
  EXPECT_EQ(seconds_of(all, TimeKind::optimizer), 20 - 15);
  EXPECT_EQ(total_seconds(all), 11);
}

// Uploads that find no kind under way leave no moment that somebody would have to wait for.
TEST(KindClock, NotesNothingWhereNothingWasBegun) {
  const double now = 0;
  auto made = std::make_unique<SetMoments>(now);
  const SetMoments& moments = *made;
  KindClock clock(std::move(made));
  for (int upload = 0; upload < 3; ++upload) clock.end();
  EXPECT_THROW((void)moments.seconds(0, 0), std::out_of_range);
}

}  // namespace
}  // namespace ng::cuda
