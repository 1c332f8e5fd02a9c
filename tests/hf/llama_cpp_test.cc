// llama.cpp must load the GGUF files that we write, and compute what their values say. Needs a
// Python with xllamacpp: $NG_PYTHON, else python3.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/files.h"
#include "base/json.h"
#include "base/program.h"
#include "interop/export_gguf.h"
#include "io/safetensors.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

using LlamaCpp = ScratchFolder;

/// Texts of bytes and what they are as ids; the reference's logits behind its last token. llama.cpp
/// rounds activations: 0.03 of the logits' standard deviation. [interop.md 1.5]
Json expectation(const io::Safetensors& reference, const std::string& type) {
  const std::vector<std::string> texts = {"In the beginning", "  a\n\tb \xC3\xA9\xE6\xBC\xA2",
                                          "wait , what ?"};
  Json ids = Json::array();
  for (const std::string& text : texts) {
    std::vector<int> bytes;
    for (const char c : text) bytes.push_back(static_cast<uint8_t>(c));
    ids.push_back(bytes);
  }
  const std::vector<float> all = io::to_floats(reference.at("logits." + type));
  const std::vector<float> last(all.end() - 256, all.end());
  double squares = 0;
  for (const float value : all) squares += double{value} * value;
  return {{"texts", texts},
          {"ids", ids},
          {"prompt", io::to_integers(reference.at("ids"))},
          {"logits", last},
          {"rms", 0.03 * std::sqrt(squares / static_cast<double>(all.size()))}};
}

TEST_F(LlamaCpp, OpensWhatWeExport) {
  make_folders(folder_);
  const char* python = std::getenv("NG_PYTHON");
  std::vector<std::string> command = {
      python != nullptr ? python : "python3",
      std::string(NG_SOURCE_DIR) + "/tests/hf/open_with_llama_cpp.py"};
  const std::string models = std::string(NG_SOURCE_DIR) + "/tests/golden/interop/models/";
  const auto add = [&](const std::string& model, const std::string& type) {
    const std::string file = in(model + type);
    const io::Safetensors reference(models + model + "/reference.safetensors");
    (void)export_gguf({.model = models + model + "/hf",
                       .out = file,
                       .name = model,
                       .type = type,
                       .keep = {},
                       .trained = {},
                       .threads = {}});
    write_file_atomically(file + ".json", json_text(expectation(reference, type)));
    command.insert(command.end(), {file, file + ".json"});
  };
  for (const char* type : {"bf16", "q8_0", "mxfp4", "nvfp4"}) add("llama", type);
  add("gpt2", "f16");
  const ProgramResult result = run_program(command, 1 << 20);
  if (!result.found || result.exit_code == 77)
    GTEST_SKIP() << "needs a Python with xllamacpp in NG_PYTHON " << result.output;
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

}  // namespace
}  // namespace ng
