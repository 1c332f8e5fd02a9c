// tokenizer_bench TOKENIZER TEXT [whole|paragraphs]: how fast one thread encodes a text, as one or
// paragraph by paragraph, as one line of JSON. Nothing was encoded before.
#include <fmt/format.h>

#include <cstdio>

#include "base/error.h"
#include "base/files.h"
#include "speed/timing.h"
#include "tokenizer/tokenizer.h"

namespace {

constexpr size_t kMaxBytes = size_t{1} << 31;

std::vector<std::string_view> documents_of(std::string_view text, bool paragraphs) {
  constexpr std::string_view kBorder = "\n\n";
  std::vector<std::string_view> documents;
  while (!text.empty()) {
    const size_t border = paragraphs ? text.find(kBorder) : std::string_view::npos;
    const size_t end = border == std::string_view::npos ? text.size() : border + kBorder.size();
    documents.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return documents;
}

void measure(const std::string& tokenizer_path, const std::string& path, bool paragraphs) {
  const auto tokenizer = ng::open_tokenizer(tokenizer_path);
  const std::string text = ng::read_file(path, kMaxBytes);
  const std::vector<std::string_view> documents = documents_of(text, paragraphs);
  size_t tokens = 0;
  const auto encode_all = [&] {
    for (std::string_view document : documents) tokens += tokenizer->encode(document).size();
  };
  const double seconds = ng::seconds_per_call(encode_all, 0);  // one call: what is met is new
  fmt::print("{{\"seconds\": {:.6f}, \"bytes\": {}, \"tokens\": {}}}\n", seconds, text.size(),
             tokens);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "tokenizer_bench TOKENIZER TEXT [whole|paragraphs]\n");
    return 2;
  }
  try {
    measure(argv[1], argv[2], argc > 3 && std::string_view(argv[3]) == "paragraphs");
  } catch (const ng::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
