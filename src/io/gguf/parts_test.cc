// Models in several GGUF files: any part opens all of them, no part passes for the whole.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "io/decoded_tensors.h"
#include "io/gguf/gguf.h"
#include "io/import_model.h"
#include "io/model_files.h"
#include "io/tensor_files.h"
#include "support/scratch_folder.h"

namespace ng::io {
namespace {

const std::string kSplit = std::string(NG_SOURCE_DIR) + "/tests/golden/interop/quants/split";

std::string part_name(int number, int count = 3) {
  return fmt::format("-{:05}-of-{:05}.gguf", number, count);
}

class GgufParts : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
    for (int number = 1; number <= 3; ++number) copy(number, "m" + part_name(number));
  }
  [[nodiscard]] static std::string bytes_of(int number) {
    return read_file(kSplit + part_name(number), 1 << 16);
  }
  void copy(int number, const std::string& name) const {
    write_file_atomically(in(name), bytes_of(number));
  }
  [[nodiscard]] std::string part(int number) const { return in("m" + part_name(number)); }
  [[nodiscard]] std::string refused(int number) const {
    return error_of([&] { (void)Gguf(part(number)); });
  }
};

using Names = std::vector<std::string>;

Names names_of(const std::vector<SafetensorsEntry>& entries) {
  Names names;
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  return names;
}

TEST_F(GgufParts, AnyOpensAll) {
  for (int number = 1; number <= 3; ++number) {
    const Gguf file(part(number));
    EXPECT_EQ(file.path(), part(1));
    EXPECT_EQ(file.paths(), (Names{part(1), part(2), part(3)}));
    EXPECT_EQ(file.text("general.architecture"), "none");
    ASSERT_EQ(names_of(file.entries()), (Names{"1.a.weight", "1.b.weight", "2.a.weight"}));
    EXPECT_EQ(to_floats(*file.find("1.b.weight")), (std::vector<float>{1, 2, 3, 1}));
    EXPECT_EQ(to_floats(*file.find("2.a.weight")), (std::vector<float>{2, 2, 3, 0}));
    EXPECT_EQ(file.find("2.a.weight")->file, part(3));
  }
}

TEST_F(GgufParts, EveryReaderTakesThemTogether) {
  EXPECT_EQ(TensorFile(part(2)).entries().size(), 3u);
  EXPECT_EQ(decoded_tensors(part(3)).tensors.size(), 3u);
  EXPECT_EQ(tensor_files({part(2), in("m-*.gguf")}), Names{part(1)});
  (void)import_tensors(part(2), in("all.safetensors"));
  EXPECT_EQ(Safetensors(in("all.safetensors")).entries().size(), 3u);
  EXPECT_EQ(
      error_of([&] { (void)read_model_config(part(2)); }),
      part(1) + ": general.architecture: \"none\" is not supported: llama, qwen2, qwen3 or gpt2");
}

TEST_F(GgufParts, NamesThoseThatAreMissing) {
  remove_all(part(2));
  const std::string one =
      ": split.count: of 3 parts one is missing: " + part(2) + ": all parts in one folder";
  EXPECT_EQ(refused(1), part(1) + one);
  EXPECT_EQ(refused(3), part(3) + one);
  remove_all(part(1));
  EXPECT_EQ(refused(3), part(3) + ": split.count: of 3 parts 2 are missing: " + part(1) + " " +
                            part(2) + ": all parts in one folder");
  for (const auto& read : {std::function<void()>([&] { (void)TensorFile(part(3)); }),
                           std::function<void()>([&] { (void)decoded_tensors(part(3)); }),
                           std::function<void()>([&] { (void)tensor_files({part(3)}); }),
                           std::function<void()>([&] { (void)read_model_config(part(3)); })})
    EXPECT_EQ(error_of(read), refused(3));
}

TEST_F(GgufParts, TheNameSaysWhichItIs) {
  copy(2, "whole.gguf");
  EXPECT_EQ(
      error_of([&] { (void)Gguf(in("whole.gguf")); }),
      in("whole.gguf") +
          ": split.count: this is part 2 of 3, and its name does not say so: a name that ends "
          "in \"-00002-of-00003.gguf\", all parts in one folder");
  copy(3, "m" + part_name(2));
  EXPECT_EQ(refused(1), part(2) + ": split.no: 2: 1, by its name");
}

/// A part with one value changed: `from`, which is in it, becomes `to`.
std::string changed_part(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string u16_key(const std::string& key, uint16_t value) {
  const uint32_t type = 2;
  return key + std::string(reinterpret_cast<const char*>(&type), sizeof type) +
         std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

TEST_F(GgufParts, RefusesAPartThatSaysItIsAlone) {
  for (const uint16_t alone : {0, 1}) {
    write_file_atomically(part(1), changed_part(bytes_of(1), u16_key("split.count", 3),
                                                u16_key("split.count", alone)));
    EXPECT_EQ(refused(1), part(1) + ": split.tensors.count: 3: 0, which this file has");
  }
}

TEST_F(GgufParts, RefusesPartsOfOtherModels) {
  write_file_atomically(
      part(2), changed_part(bytes_of(2), u16_key("split.count", 3), u16_key("split.count", 4)));
  EXPECT_EQ(refused(1), part(2) + ": split.count: 4: 3, by its name");
  write_file_atomically(part(2), changed_part(bytes_of(2), "split.count", "split.oount"));
  EXPECT_EQ(refused(1), part(2) + ": split.count: missing: a file with this key");
  write_file_atomically(part(2), changed_part(bytes_of(2), "1.a.weight", "2.a.weight"));
  EXPECT_EQ(refused(1),
            part(3) + ": \"2.a.weight\": is there twice: each tensor in one of the parts");
  copy(2, "m" + part_name(2));
  write_file_atomically(part(3), bytes_of(3).substr(0, bytes_of(3).size() - 20));
  EXPECT_EQ(refused(1), part(3) +
                            ": \"2.a.weight\": 16 bytes at offset 0 of the data leave the "
                            "file: it has 12: is it truncated?");
  copy(3, "m" + part_name(3));
  const int32_t tensors = 3, more = 4;
  const auto count = [](int32_t value) {
    const uint32_t type = 5;
    return "split.tensors.count" + std::string(reinterpret_cast<const char*>(&type), sizeof type) +
           std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  write_file_atomically(part(1), changed_part(bytes_of(1), count(tensors), count(more)));
  EXPECT_EQ(refused(2), part(1) + ": split.tensors.count: 4: 3, which the parts have together");
}

}  // namespace
}  // namespace ng::io
