// docs/formats.md and docs/recipes.md show what the program prints: every fenced command is run
// again, and the tables are made anew. NG_UPDATE_DOCS=1 in the environment rewrites the documents
// instead of comparing.
#include "program.h"

namespace ng::e2e {
namespace {

constexpr std::string_view kFence = "```console";
constexpr std::string_view kPrompt = "$ ./narrowgauge ";
constexpr std::string_view kBegin = "<!-- output of: narrowgauge ";
constexpr std::string_view kEnd = "<!-- end of output -->";

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

class Documents : public Program {
 protected:
  /// The document with every output as the program gives it now.
  std::string renewed(const std::string& text) {
    std::istringstream lines(text);
    std::string result;
    for (std::string line; std::getline(lines, line);) {
      result += line + '\n';
      if (line == kFence) {
        std::getline(lines, line);
        EXPECT_TRUE(line.starts_with(kPrompt)) << line;
        result += line + '\n' + output_of(line.substr(kPrompt.size())) + "```\n";
        skip_to(lines, "```");
      } else if (line.starts_with(kBegin)) {
        const std::string rest = line.substr(kBegin.size());
        result +=
            '\n' + output_of(rest.substr(0, rest.find(" -->"))) + '\n' + std::string(kEnd) + '\n';
        skip_to(lines, kEnd);
      }
    }
    return result;
  }

  /// A document of at least so many commands.
  void expect_true(const char* document, int commands) {
    const fs::path path = fs::path(NG_SOURCE_DIR) / document;
    const std::string text = text_of(path);
    const std::string now = renewed(text);
    EXPECT_GE(commands_, commands);
    if (std::getenv("NG_UPDATE_DOCS") != nullptr) return write_text(path, now);
    std::istringstream old_lines(text), new_lines(now);
    std::string was, is;
    for (int number = 1; std::getline(new_lines, is); ++number) {
      std::getline(old_lines, was);
      ASSERT_EQ(was, is)
          << path.string() << ":" << number
          << ": the program prints something else now; this test with NG_UPDATE_DOCS=1 "
             "in the environment rewrites the document";
    }
    EXPECT_EQ(text, now);
  }

 private:
  int commands_ = 0;

  std::string output_of(const std::string& command) {
    ++commands_;
    return run_well(words_of(command));
  }
  static void skip_to(std::istringstream& lines, std::string_view end) {
    for (std::string line; std::getline(lines, line);)
      if (line == end) return;
    ADD_FAILURE() << "no " << end << " before the end of the document";
  }
};

TEST_F(Documents, OfFormatsShowsWhatTheProgramPrints) { expect_true("docs/formats.md", 8); }

TEST_F(Documents, OfRecipesShowsWhatTheProgramPrints) { expect_true("docs/recipes.md", 3); }

}  // namespace
}  // namespace ng::e2e
