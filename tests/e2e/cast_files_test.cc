// `cast` as a tool: many files, summaries, packing, affine integers, and what it refuses.
#include <sys/resource.h>

#include <array>
#include <cmath>

#include "base/json.h"
#include "format/packing.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

class CastFiles : public Program {
 protected:
  CastFiles() : x_(8 * 33) {
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = std::sin(static_cast<float>(i * i % 101));
    write("in", {8, 33}, x_);
  }
  void write(const std::string& name, const std::vector<int64_t>& shape,
             const std::vector<float>& x) const {
    io::write_safetensors(path(name), {{"x", "F32", shape, x.data()}});
  }
  [[nodiscard]] io::Safetensors cast(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), {"cast", "in", "out"});
    (void)run_well(flags);
    return io::Safetensors(path("out"));
  }

  /// The bytes of a file "old", which a cast may replace.
  [[nodiscard]] std::string an_older_cast() const {
    (void)run_well({"cast", "in", "old", "--format", "mxint8"});
    return text_of(path("old"));
  }

  std::vector<float> x_;
};

TEST_F(CastFiles, FoldersAndPatternsGoIntoAFolder) {
  fs::create_directory(path("d"));
  write("d/a.safetensors", {2}, {1, 2});
  write("d/b.safetensors", {2}, {3, 4});
  for (const char* what : {"d", "d/*.safetensors"}) {
    (void)run_well({"cast", what, "to", "--format", "mxfp4"});
    EXPECT_EQ(io::to_floats(io::Safetensors(path("to/b.safetensors")).at("x.values")),
              (std::vector<float>{3, 4}));
    fs::remove_all(path("to"));
  }
  for (const char* what : {"?/a*", "./*/a.safetensors"}) {
    (void)run_well({"cast", what, "to", "--format", "mxfp4"});
    EXPECT_TRUE(fs::exists(path("to/a.safetensors")));
    fs::remove_all(path("to"));
  }
  expect_refused({"cast", "*/c*", "to", "--format", "mxfp4"}, 1, {"*/c*", "no file matches"});
  (void)run_well({"cast", "d/a.safetensors", "in", "to", "--format", "mxfp4"});
  EXPECT_TRUE(fs::exists(path("to/in")) && fs::exists(path("to/a.safetensors")));
  expect_refused({"cast", "d", "in", "--format", "mxfp4"}, 1, {"in", "is a file", "folder"});
  expect_refused({"cast", "d", "d", "--format", "mxfp4"}, 1, {"d/a.safetensors", "is the input"});
  expect_refused({"cast", "d/a.safetensors", "./d/../d/a.safetensors", "to", "--format", "mxfp4"},
                 1, {"has the name of"});
}

TEST_F(CastFiles, TheSummarySaysWhatHappened) {
  const float nan = std::nanf(""), inf = HUGE_VALF;
  write("in", {1, 8}, {1000, 1e-9f, nan, inf, -inf, 0, 1, 448});
  const Result result = run({"cast", "in", "out", "--format", "e4m3", "--json"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "narrowgauge: note: in: 1 NaN and 2 infinite values in 1 tensor (x)\n");
  const Json x = Json::parse(result.out).at("files").at(0).at("tensors").at(0);
  EXPECT_EQ(x.at("values"), 8);
  EXPECT_EQ(x.at("saturated"), 1);
  EXPECT_EQ(x.at("flushed"), 1);
  EXPECT_EQ(x.at("nan"), 1);
  EXPECT_EQ(x.at("inf"), 2);
  EXPECT_EQ(x.at("max_abs_error"), 552);
  EXPECT_NEAR(x.at("sqnr_db").get<double>(), -10 * std::log10(552. * 552 / (1e6 + 1 + 448 * 448)),
              1e-9);
}

TEST_F(CastFiles, PackedCodesAreBitStringsOfRows) {
  for (const char* format : {"mxfp4", "mxfp6_e2m3", "int4"})
    for (const char* axis : {"-1", "0"}) {
      const std::vector<std::string> flags = {"--format", format, "--axis", axis};
      const std::vector<int64_t> plain = io::to_integers(cast(flags).at("x.codes"));
      std::vector<std::string> more = flags;
      more.emplace_back("--packed");
      const io::Safetensors out = cast(more);
      const int bits = std::string(format) == "mxfp6_e2m3" ? 6 : 4;
      const size_t bytes = packed_bytes(33, bits);
      ASSERT_EQ(out.at("x.codes").shape, (std::vector<int64_t>{8, int64_t(bytes)}));
      const std::vector<int64_t> stored = io::to_integers(out.at("x.codes"));
      const std::vector<uint8_t> packed(stored.begin(), stored.end());
      for (size_t row = 0; row < 8; ++row) {
        std::vector<uint16_t> codes(33);
        unpack_codes(std::span(packed).subspan(row * bytes, bytes), bits, codes);
        for (size_t i = 0; i < 33; ++i)
          ASSERT_EQ(codes[i], plain[row * 33 + i]) << format << ' ' << axis << ' ' << row;
      }
    }
  write("cube", {2, 3, 4}, std::vector<float>(24, 1.0f));
  expect_refused({"cast", "cube", "out", "--format", "mxfp4", "--axis", "1", "--packed"}, 1,
                 {"cube", "x", "--packed", "--axis"});
}

// Rows of several bit strings, cut within them: their parts end within a byte.
TEST_F(CastFiles, PackedCodesOfANumberWithoutDimensions) {
  write("in", {}, {3});
  for (const auto& [format, bytes] :
       {std::pair{"e2m1", 1}, {"e3m2", 1}, {"e8m1", 2}, {"e8m6", 2}}) {
    const io::Safetensors file = cast({"--format", format, "--packed"});
    EXPECT_EQ(file.at("x.codes").shape, std::vector<int64_t>{bytes}) << format;
    EXPECT_EQ(io::to_floats(file.at("x.values")), std::vector<float>{3}) << format;
  }
}

// Beside a 0 the other sizes may be any numbers, of which nothing must be made.
TEST_F(CastFiles, SizesOfTensorsWithoutValues) {
  constexpr int64_t kLarge = int64_t{1} << 62;
  const std::vector<int64_t> shapes[] = {
      {0, kLarge}, {kLarge, kLarge, 0}, {kLarge, 0, kLarge}, {1 << 23, 0}};
  for (const std::vector<int64_t>& shape : shapes) {
    write("in", shape, x_);
    for (const std::vector<std::string>& flags :
         {std::vector<std::string>{"--format", "nvfp4"},
          {"--format", "e5m2", "--axis", "0"},
          {"--format", "mxfp4", "--block", "32x32", "--packed"}})
      EXPECT_EQ(cast(flags).at("x.values").shape, shape) << flags[1];
    (void)run_well({"inspect", "in", "--format", "mxfp4,int8"});
  }
  write("in", {kLarge, 0}, x_);
  expect_refused({"cast", "in", "new", "--format", "int8"}, 1, {"in: x", "no values", "scale"});
  write("in", {0, INT64_MAX}, x_);
  expect_refused({"cast", "in", "new", "--format", "e8m6", "--packed"}, 1, {"in: x", "--packed"});
  EXPECT_FALSE(fs::exists(path("new")));
}

TEST_F(CastFiles, PackedCodesOfLongRows) {
  constexpr int64_t kLength = 33'335, kStrings = 9;
  std::vector<float> x(static_cast<size_t>(kLength * kStrings));
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(int32_t(i * 2654435761u)) * 0x1p-31f;
  write("in", {3, 3, kLength}, x);
  for (const auto& [format, bits] : {std::pair{"mxfp4", 4}, std::pair{"mxfp6_e2m3", 6}}) {
    const std::vector<std::string> flags = {"--format", format, "--axis", "0"};
    const std::vector<int64_t> plain = io::to_integers(cast(flags).at("x.codes"));
    const io::Safetensors out = cast({"--format", format, "--axis", "0", "--packed"});
    const size_t bytes = packed_bytes(kLength, bits);
    const std::vector<int64_t> stored = io::to_integers(out.at("x.codes"));
    ASSERT_EQ(stored.size(), kStrings * bytes);
    for (size_t s = 0; s < kStrings; ++s) {
      const std::vector<uint16_t> codes(plain.begin() + int64_t(s) * kLength,
                                        plain.begin() + int64_t(s + 1) * kLength);
      std::vector<uint8_t> want(bytes);
      pack_codes(codes, bits, want);
      for (size_t i = 0; i < bytes; ++i)
        ASSERT_EQ(stored[s * bytes + i], want[i]) << format << ' ' << s << ' ' << i;
    }
  }
}

// Blocks along a dimension between others: what they are where it is the last one.
TEST_F(CastFiles, MiddleAxesAreThoseOfTheTurnedTensor) {
  for (const auto& [outer, k, inner] :
       {std::array<int64_t, 3>{3000, 2, 4}, {2, 3, 200'000}, {3, 700, 61}}) {
    const auto count = static_cast<size_t>(outer * k * inner);
    std::vector<float> x(count), turned(count);
    std::vector<size_t> place(count);  // of each value of x in `turned`
    for (size_t i = 0; i < count; ++i) {
      const auto n = static_cast<size_t>(inner), m = static_cast<size_t>(k);
      x[i] = float(int32_t(i * 2654435761u)) * 0x1p-31f;
      place[i] = i / (m * n) * (m * n) + i % n * m + i / n % m;
      turned[place[i]] = x[i];
    }
    for (const char* format : {"mxfp4", "nvfp4", "int8"}) {
      write("in", {outer, k, inner}, x);
      const std::vector<std::string> flags = {"--format", format, "--rounding", "stochastic"};
      const std::vector<float> have = io::to_floats(
          cast({"--format", format, "--rounding", "stochastic", "--axis", "1"}).at("x.values"));
      write("in", {outer, inner, k}, turned);
      const std::vector<float> want = io::to_floats(cast(flags).at("x.values"));
      for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(have[i], want[place[i]]) << format << ' ' << outer << ' ' << i;
    }
  }
}

// Time of the processor, which a busy machine takes no more of.
TEST_F(CastFiles, SmallInnerDimensionsTakeNoLonger) {
  write("in", {1 << 18, 2, 4}, std::vector<float>(size_t{1} << 21, 1.0f));
  const auto seconds_of = [&](const char* axis) {
    const auto spent = [] {
      rusage usage{};
      ::getrusage(RUSAGE_CHILDREN, &usage);
      return double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
             1e-6 * double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    };
    const double before = spent();
    (void)run_well({"cast", "in", "out", "--format", "mxfp4", "--axis", axis});
    return spent() - before;
  };
  EXPECT_LT(seconds_of("1"), 4 * seconds_of("2") + 0.1);
}

TEST_F(CastFiles, AffineIntegersHaveZeroPoints) {
  for (const char* block : {"tensor", "row", "1x16", "16x16"}) {
    const io::Safetensors out = cast({"--format", "uint8", "--scale", "fp32", "--block", block});
    const auto codes = io::to_integers(out.at("x.codes")),
               zeros = io::to_integers(out.at("x.zero"));
    const auto scales = io::to_floats(out.at("x.scale")),
               values = io::to_floats(out.at("x.values"));
    ASSERT_EQ(zeros.size(), scales.size());
    EXPECT_EQ(out.at("x.zero").shape, out.at("x.scale").shape);
    const std::string name = block;
    for (size_t i = 0; i < codes.size(); ++i) {
      const size_t row = i / 33, col = i % 33;
      const size_t at = name == "tensor" ? 0
                        : name == "row"  ? row
                        : name == "1x16" ? row * 3 + col / 16
                                         : row / 16 * 3 + col / 16;
      ASSERT_EQ(values[i], float(codes[i] - zeros[at]) * scales[at]) << block << ' ' << i;
      ASSERT_NEAR(values[i], x_[i], 0.51f * scales[at]);
    }
  }
}

TEST_F(CastFiles, TheFileSaysHowItWasMade) {
  const std::string out = run_well({"cast", "in", "out", "--format", "mxfp6_e2m3", "--packed"});
  EXPECT_TRUE(out.starts_with("x (8, 33)  saturated ")) << out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
  const io::Safetensors file(path("out"));
  const std::map<std::string, std::string>& made = file.metadata();
  const std::map<std::string, std::string> wanted = {
      {"format", "mxfp6_e2m3"}, {"block", "1x32"},     {"axis", "-1"}, {"scale_rule", "floor"},
      {"rounding", "nearest"},  {"x.shape", "[8,33]"}, {"seed", "1"},  {"packed", "true"}};
  for (const auto& [key, value] : wanted) EXPECT_EQ(made.at(key), value) << key;
}

TEST_F(CastFiles, NarrowTensorsAreRead) {
  io::write_safetensors(path("in"), {{"x", "F4", {4}, "\x21\x43"}});
  EXPECT_EQ(io::to_floats(cast({"--format", "e4m3"}).at("x.values")),
            (std::vector<float>{0.5f, 1, 1.5f, 2}));
}

TEST_F(CastFiles, UnsignedIntegersAreAffinePerRow) {
  for (const char* format : {"uint8", "uint4"}) {
    const io::Safetensors out = cast({"--format", format});
    EXPECT_EQ(out.at("x.zero").shape, (std::vector<int64_t>{8, 1}));
    EXPECT_EQ(io::to_floats(out.at("x.values")),
              io::to_floats(cast({"--format", format, "--block", "row"}).at("x.values")));
  }
  EXPECT_EQ(cast({"--format", "uint8", "--scale", "none"}).find("x.zero"), nullptr);
  EXPECT_NE(run_well({"cast", "--help"}).find("uint4"), std::string::npos);
  EXPECT_NE(run_well({"inspect", "in"}).find("uint4"), std::string::npos);
}

// A vector longer than a panel, and one whose amax comes last, against the same values as rows.
TEST_F(CastFiles, LongVectorsAreThoseOfRows) {
  constexpr int64_t kCols = 1 << 16, kRows = 65;
  std::vector<float> x(static_cast<size_t>(kRows * kCols - 7));
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(int32_t(i * 2654435761u)) * 0x1p-31f;
  x.back() = 3;
  write("long", {int64_t(x.size())}, x);
  x.resize(static_cast<size_t>(kRows * kCols), 0.0f);
  write("rows", {kRows, kCols}, x);
  for (const char* format : {"mxfp4", "nvfp4", "fp8_e4m3"}) {
    for (const char* name : {"long", "rows"})
      (void)run_well({"cast", name, std::string(name) + ".out", "--format", format, "--rounding",
                      "stochastic"});
    const io::Safetensors a(path("long.out")), b(path("rows.out"));
    std::vector<std::byte> have(a.at("x.codes").bytes), want(have.size());
    a.at("x.codes").read(0, have);
    b.at("x.codes").read(0, want);
    EXPECT_TRUE(have == want) << format;
    EXPECT_EQ(io::to_floats(a.at("x.scale")).front(), io::to_floats(b.at("x.scale")).front());
  }
}

// bf16 has FP32's range: what overflows stays visible, by either name, unless it shall saturate.
TEST_F(CastFiles, Bf16KeepsInfinities) {
  const float inf = HUGE_VALF, most = 0x1.FFFFFEp127f;
  write("in", {3}, {1, most, -most});
  for (const char* format : {"bf16", "bfloat16"}) {
    EXPECT_EQ(io::to_floats(cast({"--format", format}).at("x.values")),
              (std::vector<float>{1, inf, -inf}));
    const io::Safetensors out = cast({"--format", format, "--overflow", "saturate"});
    EXPECT_EQ(io::to_floats(out.at("x.values")),
              (std::vector<float>{1, 0x1.FEp127f, -0x1.FEp127f}));
  }
}

TEST_F(CastFiles, RefusesInOneLineAndLosesNothing) {
  const std::string before = text_of(path("in"));
  const std::string was_there = an_older_cast();
  const auto refused = [&](const std::vector<std::string>& flags,
                           const std::vector<std::string>& words, const char* out = "old") {
    std::vector<std::string> args = {"cast", "in", out};
    args.insert(args.end(), flags.begin(), flags.end());
    expect_refused(args, 1, words);
  };
  refused({"--format", "mxfp5"}, {"\"mxfp5\"", "\"mxfp4\""});
  refused({"--format", "mxfp4", "--block", "1x33"}, {"--block", "[1, 33]"});
  refused({"--format", "mxfp4", "--block", "0x0"}, {"--block"});
  refused({"--format", "uint8", "--scale", "e8m0"}, {"--scale", "e8m0", "fp32"});
  refused({"--format", "fp8_e4m3", "--scale-rule", "floor"}, {"--scale-rule", "floor", "fp32"});
  refused({"--format", "mxfp4", "--axis", "2"}, {"x", "--axis"});
  refused({"--format", "mxfp4", "--axis", "-3"}, {"x", "--axis"});
  refused({"--format", "mxfp4", "--tensor", "y"}, {"\"y\""});
  refused({"--format", "fp32"}, {"fp32"});
  const std::vector<int64_t> ints(2);
  io::write_safetensors(path("ints"), {{"i", "I64", {2}, ints.data()}});
  expect_refused({"cast", "ints", "old", "--format", "mxfp4"}, 1, {"ints", "no float tensor"});
  fs::create_symlink(path("in"), path("link"));
  refused({"--format", "mxfp4"}, {"is the input"}, "in");
  refused({"--format", "mxfp4"}, {"the same file"}, "./././in");
  refused({"--format", "mxfp4"}, {"link", "the same file as in"}, "link");
  refused({"--format", "mxfp4"}, {"ints", "not known as a cast"}, "ints");
  expect_refused({"cast", "in", "old", "new/folder", "--format", "mxfp4", "--axis", "2"}, 1,
                 {"--axis"});
  EXPECT_FALSE(fs::exists(path("new")));
  EXPECT_EQ(text_of(path("old")), was_there);
  EXPECT_EQ(text_of(path("in")), before);
}

TEST_F(CastFiles, AFullDiskLeavesTheOldFile) {
  const std::string was_there = an_older_cast();
  write("big", {1 << 16}, std::vector<float>(1 << 16, 1.0f));
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  rlimit small = limit;
  small.rlim_cur = 100'000;  // writes beyond fail as on a full disk
  ::signal(SIGXFSZ, SIG_DFL);
  ::setrlimit(RLIMIT_FSIZE, &small);
  expect_refused({"cast", "big", "old", "--format", "mxfp4"}, 1, {"old", "cannot write"});
  ::setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_EQ(text_of(path("old")), was_there);
  int64_t left = 0;
  for (const auto& entry : fs::directory_iterator(folder_))
    left += entry.path().string().find(".tmp-") != std::string::npos ? 1 : 0;
  EXPECT_EQ(left, 0);
}

}  // namespace
}  // namespace ng::e2e
