// Codes with scales as other programs lay them, and codes whose scales nobody here knows.
#include "io/hf/coded_tensors.h"

#include <cmath>
#include <deque>
#include <map>

#include "base/json.h"
#include "io/decoded_tensors.h"
#include "io/hf/coded_file.h"
#include "io/tensor_files.h"
#include "support/scratch_folder.h"

namespace ng::io {
namespace {

const std::string kScales = NG_SOURCE_DIR "/tests/golden/interop/scales/";

std::vector<float> all_of(const DecodedTensor& tensor) {
  std::vector<float> all;
  tensor.read(
      [&](std::span<const float> some) { all.insert(all.end(), some.begin(), some.end()); });
  return all;
}

struct GoldenCase {
  std::string in, note;
};

TEST(CodedTensors, OfEveryMethodAreWhatTheyStandFor) {
  const std::string ending = ": of activations or the KV cache, no part of the weights";
  const GoldenCase kCases[] = {
      {"fine", "left out: 1 activation_scale, 1 down_proj_activation_scale"},
      {"compressed",
       "left out: 1 input_global_scale, 1 input_scale, 1 k_scale, 1 output_scale, 1 q_scale, 1 "
       "v_scale"},
      {"modelopt", "left out: 1 gate_up_proj_input_scale, 2 input_scale, 1 k_scale, 1 v_scale"},
      {"unnamed", "left out: 1 qscale_act"},
      {"comfy/model.safetensors",
       "left out: 1 comfy_quant, 1 input_scale, 1 scale_input, 1 scaled_fp8"}};
  for (const auto& [in, note] : kCases) {
    const DecodedModel model = decoded_tensors(kScales + in);
    const Safetensors expected(kScales + in.substr(0, in.find('/')) + "/expected.safetensors");
    EXPECT_EQ(model.tensors.size(), expected.entries().size()) << in << ": no codes, no scales";
    for (const DecodedTensor& tensor : model.tensors) {
      const SafetensorsEntry& want = expected.at(tensor.name);
      EXPECT_EQ(tensor.shape, want.shape) << in << ' ' << tensor.name;
      EXPECT_EQ(all_of(tensor), to_floats(want)) << in << ' ' << tensor.name;
    }
    EXPECT_EQ(model.notes, std::vector<std::string>{note + ending});
  }
}

/// A folder whose tensors are bytes that a test names.
class CodedFolder : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
    configure({{"model_type", "other"}});
  }
  void configure(const Json& config) {
    write_file_atomically(in("config.json"), json_text(config));
  }
  /// What is quantized by `quantization`.
  void quantize(const Json& quantization) {
    configure({{"model_type", "other"}, {"quantization_config", quantization}});
  }
  /// Bytes `of`, as many times as the tensor takes; 0x38 is 1 of E4M3.
  void add(const std::string& name, const std::string& dtype, std::vector<int64_t> shape,
           std::vector<uint8_t> of = {0x38}) {
    constexpr size_t kMost = 8192;
    std::vector<uint8_t>& bytes = bytes_.emplace_back();
    while (bytes.size() < kMost) bytes.insert(bytes.end(), of.begin(), of.end());
    tensors_.push_back({name, dtype, std::move(shape), bytes.data()});
  }
  /// FP32 values, one for all.
  void add_scale(const std::string& name, std::vector<int64_t> shape) {
    add(name, "F32", std::move(shape), {0, 0, 0, 0x40});  // 2
  }
  void write(const std::string& name = "model.safetensors",
             const std::map<std::string, std::string>& metadata = {}) {
    write_safetensors(in(name), tensors_, metadata);
    tensors_.clear();
    bytes_.clear();
  }
  /// What is said of the tensors that were added, behind the folder's path.
  std::string said(const std::map<std::string, std::string>& metadata = {}) {
    write("model.safetensors", metadata);
    const std::string text = error_of([&] {
      const DecodedModel model = decoded_tensors(folder_);
      for (const DecodedTensor& tensor : model.tensors) (void)all_of(tensor);
    });
    return text.starts_with(folder_) ? text.substr(folder_.size() + 1) : text;
  }

  std::deque<std::vector<uint8_t>> bytes_;
  std::vector<SafetensorsTensor> tensors_;
};

const std::string kAt = "model.safetensors: ";
const std::string kElse = ": the same weights in a layout of docs/interop.md, or in BF16";

TEST_F(CodedFolder, ScalesOfOtherMethodsAreNamed) {
  struct Case {
    std::string codes, dtype;
    std::vector<std::string> scales;
    std::string named;
  };
  const Case kCases[] = {
      {"p.weight", "F8_E4M3", {"p.scale"}, "p.scale"},  // multiplies or divides
      {"p.weight", "F8_E5M2", {"p_scale"}, "p_scale"},
      {"p.weight", "F8_E4M3", {"p.weight._scale"}, "p.weight._scale"},
      {"p.weight", "F8_E4M3", {"p.weights_scaling_factor"}, "p.weights_scaling_factor"},
      {"p.weight", "F8_E4M3", {"p.input_scale"}, "p.input_scale"},  // and none of its own
      {"x.experts.w1", "F8_E4M3", {"x.experts.w1.scales"}, "x.experts.w1.scales"},
      {"w", "F8_E4M3", {"scale"}, "scale"},
      {"p.qweight", "I32", {"p.qzeros", "p.scales"}, "p.qzeros"},
      {"p.weight", "U8", {"p.weight.absmax", "p.weight.quant_map"}, "p.weight.absmax"},
      {"p.weight", "I8", {"p.SCB"}, "p.SCB"},
      {"p.weight", "I8", {"p.weight_scale"}, "p.weight_scale"},
      {"p.weight", "U8", {"p.weight_scale"}, "p.weight_scale"},
      {"p.weight", "U32", {"p.scales"}, "p.scales"},
      {"p.weight_packed", "I32", {"p.weight_scale"}, "p.weight_scale"},
      {"m.weight[0:4]", "F8_E4M3", {"m.weight.scale[0:1]"}, "m.weight.scale[0:1]"},
      {"x.w_blocks", "U8", {"x.w_scales"}, "x.w_scales"}};
  for (const Case& c : kCases) {
    add(c.codes, c.dtype, {4, 8});
    for (const std::string& scale : c.scales) add_scale(scale, {4, 1});
    EXPECT_EQ(said(), kAt +
                          fmt::format("\"{}\": is codes of {}, and {} beside it is not "
                                      "understood as their scales",
                                      c.codes, c.dtype, c.named) +
                          kElse);
  }
}

// Whatever it is called: ScaleSuspects.
TEST_F(CodedFolder, ScalesWithNamesOfTheirOwnAreNamed) {
  for (const std::string dtype : {"F8_E4M3", "F8_E5M2", "I8"}) {
    add("l.q.weight", dtype, {4, 8});
    add_scale("l.q.w_s", {4, 1});
    EXPECT_EQ(said(), kAt + "\"l.q.weight\": is codes of " + dtype +
                          ", and l.q.w_s beside it is not understood as their scales" + kElse);
  }
}

// Who casts a model plainly casts all its matrices.
TEST_F(CodedFolder, OneMatrixAmongOthersIsCodes) {
  add("p.weight", "F8_E4M3", {4, 8});
  add_scale("n.weight", {8});
  EXPECT_EQ(said(), "accepted");
  add("p.weight", "F8_E4M3", {4, 8});
  add_scale("embed.weight", {9, 4});
  EXPECT_EQ(said(), kAt +
                        "\"p.weight\": is codes of F8_E4M3 without a scale, and embed.weight is "
                        "F32: the model as it was written");
  remove_all(in("config.json"));
  EXPECT_EQ(error_of([&] { (void)all_of(decoded_tensors(in("model.safetensors")).tensors.at(0)); }),
            "accepted")
      << "of a file by itself nothing is known";
}

TEST_F(CodedFolder, WhatChangesKnownCodesIsNamed) {
  for (const std::string other :
       {"p.weight_multiplier", "p.weight_g_idx", "p.weight_scale_3", "p.pre_quant_scale"}) {
    add("p.weight", "F8_E4M3", {4, 8});
    add_scale("p.weight_scale", {4, 1});
    add_scale(other, {8});
    EXPECT_EQ(said(),
              kAt + "\"p.weight\": has " + other + " beside it, which is not understood" + kElse);
  }
  for (const std::string other : {"p.w_s", "p.alpha", "scales.p.weight", "p_mult", "fp8_scales"}) {
    add("p.weight", "F8_E4M3", {4, 8});
    add_scale("p.weight_scale", {4, 1});
    add_scale(other, {1});
    EXPECT_EQ(said(),
              kAt + "\"p.weight\": has " + other + " beside it, which is not understood" + kElse);
  }
  add("p.weight", "F8_E4M3", {4, 8});
  add_scale("p.weight_scale", {4, 1});
  add_scale("p.weight_scale_inv", {4, 1});
  EXPECT_EQ(said(), kAt +
                        "\"p.weight\": has both p.weight_scale_inv and p.weight_scale: one of "
                        "them");
  add("p.weight", "F8_E4M3", {4, 8});
  add_scale("p.weight_scale", {4, 1});
  add_scale("p.weight_scale_2", {});
  EXPECT_EQ(said(), kAt +
                        "\"p.weight_scale_2\": beside codes of 8 bits is not supported: one "
                        "scale");
  add("p.weight", "F8_E4M3", {4, 8});
  add_scale("p.weight_scale", {4, 1});
  add("p.weight_zero_point", "I8", {4, 1}, {0, 0, 3});
  EXPECT_EQ(said(), kAt + "\"p.weight_zero_point\": holds 3: symmetric codes: 0");
}

TEST_F(CodedFolder, BlocksNeedTheirSize) {
  const auto blocks = [&](std::vector<int64_t> shape) {
    add("p.weight", "F8_E4M3", {10, 20});
    add_scale("p.weight_scale_inv", std::move(shape));
    return said();
  };
  EXPECT_EQ(blocks({2, 5}), kAt +
                                "\"p.weight_scale_inv\": shape [2,5] beside p.weight of [10,20]: "
                                "blocks whose size nothing says: a config.json that says it, as "
                                "weight_block_size does");
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, {1}, {1, 1}, {10}, {10, 1}, {1, 20}})
    EXPECT_EQ(blocks(shape), "accepted") << json_text(shape);
  EXPECT_NE(blocks({20}), "accepted");
  Json fine = {{"quant_method", "fp8"}, {"weight_block_size", {5, 4}}};
  quantize(fine);
  EXPECT_EQ(blocks({2, 5}), "accepted");
  EXPECT_EQ(blocks({2, 4}), kAt + "\"p.weight_scale_inv\": shape [2,4]: [2,5] beside p.weight");
  const auto group = [](int rows, int cols) -> Json {
    return {{"format", "float-quantized"},
            {"weights", {{"strategy", "block"}, {"block_structure", {rows, cols}}}}};
  };
  quantize({{"quant_method", "compressed-tensors"},
            {"format", "mixed-precision"},
            {"config_groups", {{"a", group(5, 4)}, {"b", group(6, 4)}}}});
  EXPECT_EQ(blocks({2, 5}), kAt +
                                "\"p.weight_scale_inv\": fits blocks of several groups of "
                                "modules: one group");
}

TEST_F(CodedFolder, PartsAreCheckedByName) {
  struct Case {
    std::vector<SafetensorsTensor> parts;
    std::string says;
  };
  const std::vector<uint8_t> bytes(256, 0x38), nan(256, 0xFF);
  const void *data = bytes.data(), *nans = nan.data();
  const Case kCases[] = {
      {{{"p.weight", "F8_E4M3", {4, 8}, data}, {"p.weight_scale", "I32", {1}, data}},
       "\"p.weight_scale\": dtype I32: F32 BF16 F16 F64 or, of E8M0, U8 F8_E8M0"},
      {{{"p.weight_packed", "U8", {2, 8}, data}},
       "\"p.weight_packed\": has no p.weight_scale: the folder as it was written"},
      {{{"p.weight_packed", "U8", {2, 8}, data}, {"p.weight_scale", "F8_E4M3", {2, 1}, data}},
       "\"p.weight_packed\": has no p.weight_global_scale: the folder as it was written"},
      {{{"p.weight", "U8", {2, 8}, data}, {"p.weight_scale", "F8_E4M3", {2, 1}, data}},
       "\"p.weight\": has no p.weight_scale_2: the folder as it was written"},
      {{{"p.weight", "U8", {2, 8}, data},
        {"p.weight_scale", "F8_E4M3", {1, 2}, data},
        {"p.weight_scale_2", "F32", {}, data}},
       "\"p.weight_scale\": shape [1,2]: [2,1] beside p.weight"},
      {{{"p.weight", "U8", {2, 8}, data},
        {"p.weight_scale", "F8_E4M3", {2, 1}, data},
        {"p.weight_scale_2", "F32", {3}, data}},
       "\"p.weight_scale_2\": shape [3]: one value, or one of each matrix"},
      {{{"p.weight", "F8_E4M3", {2, 32}, data}, {"p.weight_scale", "F8_E8M0", {2, 1}, nans}},
       "\"p.weight_scale\": holds the scale 255: scales from 0 to 254"},
      {{{"p.weight", "F8_E4M3", {2, 8}, data},
        {"p.weight_scale", "F32", {}, data},
        {"q.weight", "F8_E5M2", {2, 8}, data}},
       "\"q.weight\": is codes of F8_E5M2 among quantized weights, without a scale: the model as "
       "it "
       "was written"},
      {{{"p.weight", "F32", {2}, data},
        {"p.weight_packed", "U8", {2, 16}, data},
        {"p.weight_scale", "U8", {2, 1}, data}},
       "\"p.weight_packed\": stands for p.weight, which is there too: one of them"}};
  for (const Case& c : kCases) {
    tensors_ = c.parts;
    EXPECT_EQ(said(), kAt + c.says);
  }
  quantize({{"quant_method", "fp8"}});
  add("p.weight", "F8_E4M3", {2, 8});
  EXPECT_NE(said().find("among quantized weights, without a scale"), std::string::npos);
}

// ComfyUI's NVFP4 has scales in the order of tensor cores, whose shape may be that of rows.
TEST_F(CodedFolder, OtherFormatsOfComfyAreNamed) {
  const std::string mark = R"({"format": "nvfp4"} )";
  const auto nvfp4 = [&] {
    add("b.q.weight", "U8", {128, 32});
    add("b.q.weight_scale", "F8_E4M3", {128, 4});
    add_scale("b.q.weight_scale_2", {});
  };
  const std::string says =
      kAt + "\"b.q.weight\": is stored as ComfyUI's \"format\": \"nvfp4\"" + kElse;
  nvfp4();
  EXPECT_EQ(said(), "accepted") << "modelopt's";
  nvfp4();
  add("b.q.comfy_quant", "U8", {std::ssize(mark)}, {mark.begin(), mark.end()});
  EXPECT_EQ(said(), says);
  nvfp4();
  EXPECT_EQ(said({{kComfyMetadata, R"({"layers": {"b.q": {"format": "nvfp4"}}})"}}), says);
  nvfp4();
  EXPECT_EQ(said({{kComfyMetadata, R"({"layers": {"a": {"format": "nvfp4"}}})"}}), "accepted");
  const std::string turned = R"({"format": "float8_e4m3fn", "convrot": true} )";
  add("b.q.weight", "F8_E4M3", {2, 8});
  add_scale("b.q.weight_scale", {});
  add("b.q.comfy_quant", "U8", {std::ssize(turned)}, {turned.begin(), turned.end()});
  EXPECT_NE(said().find("is stored as ComfyUI's \"convrot\": true"), std::string::npos);
  add("b.q.comfy_quant", "U8", {3});
  EXPECT_NE(said().find("\"b.q.comfy_quant\""), std::string::npos);
}

// Numbers that are no codes, whatever else there is.
TEST_F(CodedFolder, OtherNumbersStayWhatTheyAre) {
  add("a.weight", "F8_E4M3", {2, 2});
  add("attn.position_index", "I64", {1});
  add_scale("attn.k_scale", {1});
  add("text_projection", "F8_E4M3", {3}, {0x40});
  add_scale("logit_scale", {1});
  add("tokens", "U8", {3}, {7});
  write();
  const DecodedModel model = decoded_tensors(folder_);
  ASSERT_EQ(model.tensors.size(), 6u);
  EXPECT_TRUE(model.notes.empty());
  EXPECT_EQ(all_of(model.tensors[0]), std::vector<float>(4, 1.0f));
  EXPECT_EQ(all_of(model.tensors[3]), std::vector<float>(3, 2.0f));
  EXPECT_EQ(all_of(model.tensors[5]), std::vector<float>(3, 7.0f));
}

TEST_F(CodedFolder, ToolsReadCodesAsWhatTheyStandFor) {
  add("p.weight", "F8_E4M3", {2, 4}, {0x38, 0x40});
  add_scale("p.weight_scale", {2, 1});
  add("q.weight_packed", "U8", {1, 16}, {0x22});
  add("q.weight_scale", "U8", {1, 1}, {128});
  add("r.weight", "F8_E4M3", {2, 4});
  add_scale("r.scale", {1});
  write();
  const TensorFile file(in("model.safetensors"));
  ASSERT_EQ(file.entries().size(), 6u);
  EXPECT_EQ(to_floats(file.entries()[0]), (std::vector<float>{2, 4, 2, 4, 2, 4, 2, 4}));
  EXPECT_EQ(to_floats(file.entries()[1]), (std::vector<float>{2, 2})) << "scales are tensors, too";
  const SafetensorsEntry& packed = file.entries()[2];
  EXPECT_EQ(packed.name, "q.weight_packed");
  EXPECT_EQ(packed.shape, (std::vector<int64_t>{1, 32}));
  EXPECT_TRUE(is_wanted(packed, "*"));
  EXPECT_EQ(to_floats(packed), std::vector<float>(32, 2.0f));
  std::vector<float> some(5);
  FloatReader(packed).read(3, some);
  EXPECT_EQ(some, std::vector<float>(5, 2.0f));
  EXPECT_NE(error_of([&] { (void)FloatReader(file.entries()[4]); }).find("r.scale beside it"),
            std::string::npos);
}

// Files are written in the order of tensors and cut by size: a scale may come to lie in the next.
TEST_F(CodedFolder, ScalesOfAFileMayLieInAnother) {
  add("p.weight", "F8_E4M3", {10, 20});
  write("a.safetensors");
  add_scale("p.weight_scale_inv", {2, 5});
  write("b.safetensors");
  const Json map = {{"p.weight", "a.safetensors"}, {"p.weight_scale_inv", "b.safetensors"}};
  write_file_atomically(in("model.safetensors.index.json"), json_text({{"weight_map", map}}));
  quantize({{"quant_method", "fp8"}, {"weight_block_size", {5, 4}}});
  EXPECT_EQ(to_floats(TensorFile(in("a.safetensors")).entries()[0]), std::vector<float>(200, 2.0f));
  quantize({{"quant_method", "exl3"}});
  EXPECT_NE(error_of([&] {
              (void)to_floats(TensorFile(in("a.safetensors")).entries()[0]);
            }).find("\"exl3\" is not supported"),
            std::string::npos);
}

// One file says nothing of scales that lie in another.
TEST_F(CodedFolder, AFileOfSeveralIsNoModel) {
  const auto said_of = [&](const std::string& name) {
    return error_of([&] {
      for (const DecodedTensor& tensor : decoded_tensors(in(name)).tensors) (void)all_of(tensor);
    });
  };
  const std::string first = "m-00001-of-00002.safetensors", second = "m-00002-of-00002.safetensors";
  add("p.weight", "F8_E4M3", {4, 8});
  write(first);
  EXPECT_EQ(said_of(first), in(first) + ": \"p.weight\": is codes of F8_E4M3 in one of several " +
                                "files, and " + second +
                                " is missing: all files of the model in one folder");
  add_scale("q.weight", {4});
  write(second);
  EXPECT_EQ(said_of(first), "accepted");
  add_scale("p.w_s", {4});
  write(second);
  EXPECT_NE(said_of(first).find("and p.w_s beside it is not understood"), std::string::npos);
  add_scale("p.weight_scale", {4});
  write(second);
  EXPECT_EQ(said_of(first), "accepted");
  EXPECT_EQ(all_of(decoded_tensors(in(first)).tensors.at(0)), std::vector<float>(32, 2.0f));
}

}  // namespace
}  // namespace ng::io
