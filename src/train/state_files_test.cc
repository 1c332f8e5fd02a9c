// Files of a checkpoint hold whole tensors, whatever ranks had parts of them; any other ranks read
// them.
#include "train/state_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/files.h"
#include "comm/thread_ranks.h"
#include "run/backends.h"

namespace ng {
namespace {

struct FileLayout {
  int ranks = 1, tensor = 1;
};

/// A tensor by its whole, and how ranks cut it.
struct Tensor8 {
  const char* name;
  int64_t rows, cols;
  Cut::Axis axis;
  int bands;
  const char* element;
  bool is_own;  ///< rows are dealt to the ranks with the same part
};
constexpr Tensor8 kTensors[] = {
    {"whole", 6, 5, Cut::Axis::none, 1, "float32", false},
    {"own", 8, 3, Cut::Axis::none, 1, "float32", true},
    {"rows", 16, 6, Cut::Axis::rows, 1, "float8_e4m3fn", false},
    {"qkv", 24, 4, Cut::Axis::rows, 3, "float8_e4m3fn", true},
    {"bias", 1, 24, Cut::Axis::cols, 3, "float32", true},
    {"columns", 5, 16, Cut::Axis::cols, 1, "float8_e4m3fn", true},
    {"codes of four bits", 5, 32, Cut::Axis::cols, 1, "float4_e2m1fn", false},
};

class StateFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = join_path(testing::TempDir(), fmt::format("state_files_{}", ::getpid()));
    remove_all(folder_);
    make_folders(folder_);
  }
  void TearDown() override { remove_all(folder_); }

  /// Registers what a rank has of the tensors. Owners of rows: halves, where two ranks have a part.
  static void claim(ng::Run& run) {
    const Comm& group = run.tensor_group();
    for (const Tensor8& t : kTensors) {
      PersistentSpec spec{.name = t.name,
                          .owner = t.name,
                          .element = &element_format(t.element),
                          .rows = t.rows,
                          .cols = t.cols};
      if (t.axis != Cut::Axis::none && group.ranks() > 1) {
        spec.cut = {.axis = t.axis, .bands = t.bands, .part = group.rank(), .parts = group.ranks()};
        (t.axis == Cut::Axis::rows ? spec.rows : spec.cols) /= group.ranks();
      }
      const Comm& owners = spec.cut ? run.comm() : run.ranks().world();
      spec.is_own = t.is_own && run.ranks().world().ranks() > 1;
      if (t.is_own && owners.ranks() > 1) {
        if (spec.rows == 1 && owners.rank() > 0) continue;
        spec.whole_rows = spec.rows == 1 ? 0 : spec.rows;
        spec.first_row = spec.rows * owners.rank() / owners.ranks();
        if (spec.rows > 1)
          spec.rows = spec.rows * (owners.rank() + 1) / owners.ranks() - spec.first_row;
      }
      static_cast<void>(run.persistent(spec));
    }
  }

  /// A byte of a registered row by its place in the whole: of columns that begin bytes.
  static std::byte byte_of(const PersistentSpec& spec, int64_t row, int64_t byte) {
    return static_cast<std::byte>((row * 37 + byte * 5 + static_cast<int64_t>(spec.name.size())) %
                                  251);
  }

  /// visit(byte in memory, what belongs there) for all that a rank has.
  template <class Visit>
  static void for_bytes(const ng::Run& run, const Visit& visit) {
    for (const Persistent& row : run.persistents()) {
      const PersistentSpec& spec = row.spec;
      if (!spec.is_saved) continue;
      const int64_t all_rows = spec.whole_rows > 0 ? spec.whole_rows : spec.rows;
      const int64_t bits = spec.element->bits;
      for (const CutPiece& at : pieces_of(spec.cut, all_rows, spec.cols))
        for (int64_t r = at.row; r < at.row + at.rows; ++r) {
          if (r < spec.first_row || r >= spec.first_row + spec.rows) continue;
          std::byte* const line =
              row.view.data + bytes_of(*spec.element, (r - spec.first_row) * row.view.stride);
          for (int64_t b = 0; b < at.cols * bits / 8; ++b)
            visit(line[at.col * bits / 8 + b],
                  byte_of(spec, at.whole_row + r - at.row, at.whole_col * bits / 8 + b));
        }
    }
  }

  void on_ranks(const FileLayout& layout, const std::function<void(ng::Run&)>& body) const {
    run_ranks(layout.ranks, [&](Comm& comm) {
      ng::Run run(make_backend("cpu", Threads{1}), 1, 0, &comm, layout.tensor);
      claim(run);
      body(run);
    });
  }

  void write(const FileLayout& layout) const {
    on_ranks(layout, [&](ng::Run& run) {
      for_bytes(run, [](std::byte& at, std::byte value) { at = value; });
      const Comm& world = run.ranks().world();
      if (world.rank() == 0)
        write_state(run, rows_to_write(run, false), join_path(folder_, kStateFile));
      if (world.ranks() > 1)
        write_state(run, rows_to_write(run, true),
                    join_path(folder_, rank_state_file(world.rank(), world.ranks())));
    });
  }

  void expect_read(const FileLayout& layout) const {
    on_ranks(layout, [&](ng::Run& run) {
      const StateFiles files(folder_);
      for (const bool own : {false, true})
        for (const Persistent* row : saved_rows(run, own)) files.read_into(run, *row);
      int64_t wrong = 0, seen = 0;
      for_bytes(run, [&](std::byte& at, std::byte value) {
        wrong += at != value ? 1 : 0;
        ++seen;
      });
      EXPECT_EQ(wrong, 0) << layout.ranks << " ranks, " << layout.tensor << " in a group";
      EXPECT_GT(seen, 0);
    });
  }

  std::string folder_;
};

TEST_F(StateFilesTest, AnyLayoutReadsWhatAnyOtherWrote) {
  const FileLayout layouts[] = {{1, 1}, {2, 1}, {2, 2}, {4, 2}, {4, 4}};
  for (const FileLayout& from : layouts) {
    SCOPED_TRACE(fmt::format("from {} ranks, {} in a group", from.ranks, from.tensor));
    remove_all(folder_);
    make_folders(folder_);
    write(from);
    for (const FileLayout& to : layouts) expect_read(to);
  }
}

TEST_F(StateFilesTest, NamesWhatNoFileHas) {
  write({4, 4});
  remove_all(join_path(folder_, rank_state_file(2, 4)));
  on_ranks({1, 1}, [&](ng::Run& run) {
    const StateFiles files(folder_);
    for (const Persistent* row : saved_rows(run, false)) {
      if (row->spec.name != "columns") continue;
      try {
        files.read_into(run, *row);
        ADD_FAILURE() << "read";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("columns: rows 0 to 5 are in none"),
                  std::string::npos)
            << error.what();
      }
    }
  });
}

}  // namespace
}  // namespace ng
