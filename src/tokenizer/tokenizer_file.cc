#include "tokenizer/tokenizer_file.h"

#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/output_file.h"
#include "tokenizer/subword_tokenizer.h"

namespace ng {
namespace {

/// As this program and Hugging Face's library write them.
bool is_tokenizer(const std::string& path) {
  return begins_with(path, "{\n \"version\": \"1.0\"") ||
         begins_with(path, "{\n  \"version\": \"1.0\"") ||
         begins_with(path, "{\"version\":\"1.0\"");
}

}  // namespace

void require_tokenizer_target(const std::string& out, const std::vector<std::string>& texts) {
  require_target(out, "a tokenizer", is_tokenizer);
  for (const std::string& text : texts) refuse_input(out, text);
}

TrainedBpe train_bpe_of_files(const std::vector<std::string>& paths, const BpeTraining& training,
                              Threads threads,
                              const std::function<void(int64_t done, int64_t total)>& show) {
  std::vector<MappedFile> files;
  std::vector<std::string_view> texts;
  for (const std::string& path : paths) texts.push_back(files.emplace_back(path).text());
  return train_bpe(texts, training, threads, show);
}

std::unique_ptr<Tokenizer> tokenizer_of_json(std::string json) {
  TokenizerFiles files;
  files.json = std::move(json);
  files.json_place = "tokenizer.json";
  const Json parsed = parse_json(files.json, files.json_place);
  return std::make_unique<SubwordTokenizer>(parsed, std::move(files));
}

}  // namespace ng
