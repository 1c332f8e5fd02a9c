// The rules every source file keeps: which folders may include which, and the shape of a file.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace ng {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

constexpr size_t kMaxLines = 400;
constexpr size_t kMaxColumns = 100;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> known) {
  return std::find(known.begin(), known.end(), text) != known.end();
}

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return text.ends_with(ending); });
}

Strings lines_of(std::string_view text) {
  Strings lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Characters of UTF-8 text: all bytes but continuation bytes.
size_t columns_of(std::string_view line) {
  return size_t(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// The folders of src/, lowest first; the list lives in CMakeLists.txt.
Strings folder_order() {
  Strings folders;
  std::istringstream list(NG_FOLDERS);
  for (std::string folder; std::getline(list, folder, ',');) folders.push_back(folder);
  return folders;
}

// Place in `order` of the folder that `path` (relative to src/) lies in: the longest listed one, so
// backend/cpu/gemm/x.h belongs to backend/cpu. -1 where none is listed.
int rank_of(const Strings& order, std::string_view path) {
  int rank = -1;
  size_t longest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i].size() > longest && path.starts_with(order[i] + "/")) {
      rank = int(i);
      longest = order[i].size();
    }
  }
  return rank;
}

// One line per include of `path` that the order forbids.
Strings order_violations(const Strings& order, std::string_view path, std::string_view text) {
  const int own = rank_of(order, path);
  if (own < 0) return {fmt::format("{}: its folder is not listed in CMakeLists.txt", path)};
  Strings found;
  for (const std::string& line : lines_of(text)) {
    constexpr std::string_view kInclude = "#include \"";
    if (!line.starts_with(kInclude)) continue;
    const std::string included =
        line.substr(kInclude.size(), line.find('"', kInclude.size()) - kInclude.size());
    const int theirs = rank_of(order, included);
    if (theirs < 0) {
      found.push_back(fmt::format("{}: \"{}\": write the path from src/", path, included));
    } else if (theirs > own) {
      found.push_back(fmt::format("{}: \"{}\": {} comes before {}", path, included,
                                  order[size_t(own)], order[size_t(theirs)]));
    }
  }
  return found;
}

// Everything about the shape of a text file that breaks a rule.
Strings shape_violations(std::string_view path, std::string_view text) {
  Strings found;
  const Strings lines = lines_of(text);
  if (lines.size() > kMaxLines)
    found.push_back(fmt::format("{}: {} lines, at most {}", path, lines.size(), kMaxLines));
  if (!text.empty() && text.back() != '\n')
    found.push_back(fmt::format("{}: no newline at the end", path));
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto report = [&](std::string_view what) {
      found.push_back(fmt::format("{}:{}: {}", path, i + 1, what));
    };
    const std::string& line = lines[i];
    if (columns_of(line) > kMaxColumns) report(fmt::format("over {} columns", kMaxColumns));
    if (line.find('\t') != std::string::npos) report("tab");
    if (!line.empty() && is_one_of(line.substr(line.size() - 1), {" ", "\r"}))
      report("white space at the end of the line");
  }
  // A Highway -inl.h is read once per instruction set and guards itself with HWY_TARGET_TOGGLE.
  if (path.ends_with(".h") && text.find("#pragma once\n") == std::string_view::npos &&
      text.find("HWY_TARGET_TOGGLE") == std::string_view::npos)
    found.push_back(fmt::format("{}: no #pragma once", path));
  return found;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Files under `folder` of the repository, sorted; none where the folder is missing.
std::vector<fs::path> files_under(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void expect_none(const Strings& violations) {
  for (const std::string& violation : violations) ADD_FAILURE() << violation;
}

const fs::path kRoot = NG_SOURCE_DIR;

TEST(DependencyOrder, EveryFolderIncludesOnlyItselfAndThoseBeforeIt) {
  const Strings order = folder_order();
  size_t checked = 0;
  for (const fs::path& file : files_under(kRoot / "src")) {
    const std::string path = fs::relative(file, kRoot / "src").generic_string();
    if (!ends_with_any(path, {".h", ".cc"})) continue;
    if (ends_with_any(path, {"_test.cc", "_bench.cc", "_fuzz.cc"})) continue;  // these see all
    expect_none(order_violations(order, path, text_of(file)));
    ++checked;
  }
  EXPECT_GT(checked, 10U);
}

TEST(DependencyOrder, FindsWhatIsForbidden) {
  const Strings order{"base", "backend", "backend/cpu", "run"};
  const auto found = [&](std::string_view path, std::string_view text) {
    return order_violations(order, path, text).size();
  };
  EXPECT_EQ(found("run/x.cc", "#include \"run/x.h\"\n#include \"base/error.h\"\n"), 0U);
  EXPECT_EQ(found("backend/cpu/gemm/x.cc", "#include \"backend/cpu/x.h\"\n"), 0U);
  EXPECT_EQ(found("base/x.cc", "#include <vector>\n#include \"run/x.h\"\n"), 1U);
  EXPECT_EQ(found("backend/x.cc", "#include \"backend/cpu/x.h\"\n"), 1U);
  EXPECT_EQ(found("run/x.cc", "#include \"x.h\"\n"), 1U);
  EXPECT_EQ(found("other/x.cc", ""), 1U);
}

TEST(Shape, EveryFileKeepsTheRules) {
  size_t checked = 0;
  for (const char* folder :
       {"src", "bindings", "include", "tests", "cmake", "scripts", "benchmarks", "examples"}) {
    for (const fs::path& file : files_under(kRoot / folder)) {
      const std::string path = fs::relative(file, kRoot).generic_string();
      const bool is_source =
          ends_with_any(path, {".h", ".cc", ".cmake", ".py", ".toml", ".html", ".css", ".js"});
      if (!is_source && file.has_extension()) continue;
      if (path.find("/corpus/") != std::string::npos || path.starts_with("tests/golden")) continue;
      expect_none(shape_violations(path, text_of(file)));
      ++checked;
    }
  }
  for (const char* path : {"CMakeLists.txt", "narrowgauge", "test"})
    expect_none(shape_violations(path, text_of(kRoot / path)));
  EXPECT_LE(lines_of(text_of(kRoot / "CMakeLists.txt")).size(), 200U);
  EXPECT_GT(checked, 10U);
}

TEST(Shape, FindsWhatIsForbidden) {
  const auto found = [](std::string_view path, const std::string& text) {
    return shape_violations(path, text).size();
  };
  EXPECT_EQ(found("x.cc", std::string(100, 'x') + "\n"), 0U);
  EXPECT_EQ(found("x.cc", std::string(101, 'x') + "\n"), 1U);
  EXPECT_EQ(found("x.cc", "// " + std::string(97, ' ') + "·\n"), 1U);
  EXPECT_EQ(found("x.cc", "// " + std::string(96, ' ') + "·\n"), 0U);  // 100 columns, 101 bytes
  EXPECT_EQ(found("x.cc", "\tx\n"), 1U);
  EXPECT_EQ(found("x.cc", "x \n"), 1U);
  EXPECT_EQ(found("x.cc", "x\r\n"), 1U);
  EXPECT_EQ(found("x.cc", "x"), 1U);
  EXPECT_EQ(found("x.h", "int x;\n"), 1U);
  EXPECT_EQ(found("x.h", "#pragma once\n"), 0U);
  std::string long_file;
  for (int i = 0; i < 400; ++i) long_file += "x\n";
  EXPECT_EQ(found("x.cc", long_file), 0U);
  EXPECT_EQ(found("x.cc", long_file + "x\n"), 1U);
}

// A pattern of tests/at-size.txt that names nothing leaves nothing out. Those of parametrised tests
// are put together elsewhere and not looked for.
TEST(AtSize, EveryPatternNamesATest) {
  std::string tests;
  for (const char* folder : {"src", "tests"})
    for (const fs::path& file : files_under(kRoot / folder))
      if (file.generic_string().ends_with("_test.cc")) tests += text_of(file);
  size_t checked = 0;
  for (const std::string& pattern : lines_of(text_of(kRoot / "tests/at-size.txt"))) {
    if (pattern.empty() || pattern[0] == '#' || pattern.find('/') != std::string::npos) continue;
    const size_t dot = pattern.find('.');
    ASSERT_NE(dot, std::string::npos) << pattern;
    const std::string suite = pattern.substr(0, dot), test = pattern.substr(dot + 1);
    const std::string begin = (suite == "*" ? "" : "(" + suite) + ", ";
    EXPECT_NE(tests.find(begin + test.substr(0, test.find('*'))), std::string::npos) << pattern;
    ++checked;
  }
  EXPECT_GT(checked, 10U);
}

}  // namespace
}  // namespace ng
