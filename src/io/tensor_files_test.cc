#include "io/tensor_files.h"

#include "support/scratch_folder.h"

namespace ng::io {
namespace {

using Words = std::vector<std::string>;

class TensorFiles : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
    const std::vector<float> floats = {1, 2};
    const std::vector<int64_t> integers = {3};
    write_safetensors(in("a.safetensors"), {{"x", "F32", {2}, floats.data()},
                                            {"y", "BF16", {4}, floats.data()},
                                            {"n", "I64", {1}, integers.data()}});
    write_safetensors(in("b.safetensors"), {{"n", "I64", {1}, integers.data()}});
    write_file_atomically(in("c.txt"), "no tensors");
  }
};

TEST_F(TensorFiles, OfFoldersPatternsAndNames) {
  const std::string a = in("a.safetensors"), b = in("b.safetensors");
  EXPECT_EQ(tensor_files({folder_}), (Words{a, b}));
  EXPECT_EQ(tensor_files({b, in("*.safetensors")}), (Words{b, a}));  // each once
  EXPECT_EQ(tensor_files({"absent"}), (Words{"absent"}));  // whoever opens it says what is wrong
  EXPECT_TRUE(names_many(folder_) && names_many(in("?.safetensors")));
  EXPECT_FALSE(names_many(a));
  for (const std::string& word : {std::string(), in("*.bin")})
    EXPECT_NE(error_of([&] { (void)tensor_files({word}); }), "accepted") << word;
}

TEST_F(TensorFiles, OnlyFloatsAreWanted) {
  const TensorFile file(in("a.safetensors"));
  ASSERT_EQ(file.entries().size(), 3u);
  const SafetensorsEntry &x = file.entries()[0], &y = file.entries()[1], &n = file.entries()[2];
  EXPECT_TRUE(is_wanted(x, "*") && is_wanted(y, "y"));
  EXPECT_FALSE(is_wanted(x, "y") || is_wanted(n, "*"));
  EXPECT_EQ(skipped_tensors(file, "*"), Words{"n"});
  EXPECT_EQ(skipped_tensors(file, "x"), Words{});
  const auto refusal = [](const TensorFile& of) {
    return error_of([&] { refuse_without_floats(of, "z"); });
  };
  EXPECT_NE(refusal(file).find("no float tensor matches \"z\""), std::string::npos);
  EXPECT_NE(refusal(TensorFile(in("b.safetensors"))).find("no float tensor among its 1"),
            std::string::npos);
}

TEST_F(TensorFiles, WhatMayHaveBeenMeantIsSaid) {
  const std::vector<float> floats = {1, 2};
  write_safetensors(in("m.safetensors"), {{"h.0.mlp.up.weight", "F32", {2}, floats.data()},
                                          {"h.1.mlp.up.weight", "F32", {2}, floats.data()},
                                          {"norm", "F32", {2}, floats.data()}});
  const TensorFile file(in("m.safetensors"));
  const auto refusal = [&](const std::string& names) {
    return error_of([&] { refuse_without_floats(file, names); });
  };
  EXPECT_NE(refusal("mlp.up").find("\"*mlp.up*\", which means 2 of 3"), std::string::npos);
  for (const auto& [names, meant] : {std::pair("nrom", "did you mean \"norm\"? "),
                                     {"h.01*", "did you mean \"h.0.*\"? "},
                                     {"*.mpl.*", "did you mean \"*.mlp.*\"? "},
                                     {"h.1.mpl*", "did you mean \"h.1.mlp.*\"? "},
                                     {"*.mlp.upp.weight", "did you mean \"*.mlp.up.weight\"? "},
                                     {"elsewhere",
                                      "\"elsewhere\": a pattern that one matches, as "
                                      "\"h.0.mlp.up.weight\""}})
    EXPECT_NE(refusal(names).find(meant), std::string::npos) << refusal(names);
}

}  // namespace
}  // namespace ng::io
