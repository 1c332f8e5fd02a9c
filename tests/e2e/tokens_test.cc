// Texts, documents and chats as token ids and back, and runs that learn from them.
#include <fmt/format.h>

#include <cmath>

#include "base/json.h"
#include "data/npy_header.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Tokens : public Program {
 protected:
  /// The objects of JSON lines on standard output.
  std::vector<Json> lines_of(const std::vector<std::string>& args) {
    std::vector<Json> lines;
    std::istringstream out(run_well(args));
    for (std::string line; std::getline(out, line);) lines.push_back(parse_json(line, "output"));
    return lines;
  }
  void expect_nothing_at(const char* name) const { EXPECT_FALSE(fs::exists(path(name))) << name; }
};

TEST_F(Tokens, OfATextAreOneDocumentWithoutEnd) {
  write_text(path("t.txt"), "a\xFF<|endoftext|>");
  const std::vector<Json> lines = lines_of({"tokenize", "t.txt", "-", "--tokenizer", "bytes"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["ids"].size(), 15u) << "every byte is its own id";
  EXPECT_EQ(lines[0]["ids"][1], 255);
  EXPECT_FALSE(lines[0].contains("mask"));
  (void)run_well({"tokenize", "t.txt", "t.bin", "--tokenizer", "bytes"});
  (void)run_well({"detokenize", "t.bin", "back.txt", "--tokenizer", "bytes"});
  EXPECT_EQ(text_of(path("back.txt")), "a\xFF<|endoftext|>");
}

TEST_F(Tokens, OfDocumentsHaveEndsAndMasks) {
  write_text(path("d.jsonl"),
             "{\"text\": \"hi\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}\n"
             "{\"messages\": [{\"role\": \"assistant\", \"content\": \"c\"}]}\n");
  const std::vector<std::string> command = {"tokenize", "d.jsonl",    "-",     "--tokenizer",
                                            "bytes",    "--template", "chatml"};
  const std::vector<Json> lines = lines_of(command);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], parse_json(R"({"ids": [104, 105, 255]})", ""));
  EXPECT_EQ(lines[1], parse_json(R"({"ids": [97, 98, 255], "mask": [0, 1, 1]})", ""));
  EXPECT_EQ(lines[2]["text"], "<|im_start|>assistant\nc<|im_end|>\n");
  EXPECT_EQ(lines[2]["mask"].size(), lines[2]["ids"].size());
  std::vector<std::string> bare = command;
  bare.insert(bare.end(), {"--no-end", "--generation-prompt"});
  const std::vector<Json> without = lines_of(bare);
  EXPECT_EQ(without[0]["ids"].size(), 2u);
  EXPECT_EQ(without[2]["text"], "<|im_start|>assistant\nc<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(Tokens, OfMessagesAreTargetsWhereTheirWeightsSay) {
  write_text(path("w.jsonl"),
             R"({"messages": [{"role": "assistant", "content": "a", "weight": 0}, )"
             R"({"role": "assistant", "content": "b"}], "score": 1})");
  std::vector<std::string> command = {"tokenize", "w.jsonl", "-",          "--tokenizer",
                                      "bytes",    "--json",  "--template", "chatml"};
  expect_refused(
      command, 1,
      {"w.jsonl:1: score: 1, a key that is not read here: ", "or --ignore-keys with its name"});
  command.insert(command.end(), {"--ignore-keys", "rank,score"});
  const Json line = lines_of(command).at(0);
  const std::string mask =
      std::string(22, '0') + std::string(1 + 10 + 1 + 22, '0') + std::string(1 + 10, '1') + "0";
  ASSERT_EQ(line["mask"].size(), mask.size());
  for (size_t i = 0; i < mask.size(); ++i) EXPECT_EQ(line["mask"][i], mask[i] == '1' ? 1 : 0) << i;
}

TEST_F(Tokens, SpecialOnesMayBeText) {
  (void)run_well(
      {"tokenizer", "train", "tiny.txt", "t.json", "--vocab", "280", "--pattern", "gpt2"});
  write_text(path("t.txt"), "a<|endoftext|>");
  const std::vector<std::string> command = {"tokenize", "t.txt", "-", "--tokenizer", "t.json"};
  EXPECT_EQ(lines_of(command).at(0)["ids"].size(), 2u);
  std::vector<std::string> as_text = command;
  as_text.insert(as_text.end(), {"--special-tokens", "text"});
  EXPECT_GT(lines_of(as_text).at(0)["ids"].size(), 5u);
  write_text(path("d.jsonl"), "{\"text\": \"a<|endoftext|>\"}\n");
  as_text[1] = "d.jsonl";
  EXPECT_GT(lines_of(as_text).at(0)["ids"].size(), 6u);
  (void)run_well({"train", "tiny.toml", "--out", "r", "--set", "train.steps=1"});
  const auto tokens_with = [&](const char* words) {
    return parse_json(
        run_well({"eval", "r/model", "--data", "d.jsonl", "--special-tokens", words, "--json"}),
        "")["tokens"];
  };
  EXPECT_EQ(tokens_with("recognized"), 2);
  EXPECT_EQ(tokens_with("text"), 14);
  expect_refused({"eval", "r/model", "--data", "d.jsonl", "--special-tokens", "no"}, 2,
                 {"--special-tokens"});
}

TEST_F(Tokens, AreCopiedFromKindToKind) {
  write_text(path("d.jsonl"), "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n");
  (void)run_well({"tokenize", "d.jsonl", "d.bin", "--tokenizer", "bytes", "--as", "bintok"});
  const Json want = parse_json(R"({"ids": [97, 98, 99, 100, 255], "mask": [0, 0, 1, 1, 1]})", "");
  EXPECT_EQ(lines_of({"tokenize", "d.bin", "-"}).at(0), want);
  const Json written =
      parse_json(run_well({"tokenize", "d.bin", "copy.bin", "--as", "bintok", "--json"}), "");
  EXPECT_EQ(written, (Json{{"out", "copy.bin"}, {"tokens", 5}, {"vocab", 256}}));
  const Result lossy = run({"tokenize", "d.bin", "d.npy"});
  EXPECT_EQ(lossy.code, 0);
  EXPECT_NE(lossy.err.find("no loss mask: --as bintok keeps it"), std::string::npos) << lossy.err;
  (void)run_well({"tokenize", "d.npy", "d.u16", "--as", "uint16"});
  EXPECT_EQ(text_of(path("d.u16")), std::string("a\0b\0c\0d\0\xFF\0", 10));
  EXPECT_EQ(lines_of({"tokenize", "d.u16", "-", "--from", "uint16"}).at(0)["ids"], want["ids"]);
  const std::vector<Json> text = lines_of({"detokenize", "d.bin", "-", "--tokenizer", "bytes"});
  EXPECT_EQ(text.at(0)["text"], "abcd<|endoftext|>");
  EXPECT_EQ(
      parse_json(run_well({"detokenize", "d.bin", "d.txt", "--tokenizer", "bytes", "--json"}), ""),
      (Json{{"out", "d.txt"}, {"bytes", 5}}));
}

TEST_F(Tokens, MalformedInputIsOneLineAndLeavesNothing) {
  write_text(path("t.txt"), "abc");
  write_text(path("bad.jsonl"), "{\"text\": \"a\"}\n{\"text\": 5}\n");
  write_text(path("ids.jsonl"), "{\"ids\": [1, 256]}\n");
  write_text(path("cut.bin"), std::string("BIN.TOK\n\1\0\0\0", 12));
  expect_refused({"tokenize", "no.txt", "out.bin", "--tokenizer", "bytes"}, 1, {"no.txt"});
  expect_refused({"tokenize", "t.txt", "out.bin"}, 1, {"--tokenizer", "missing"});
  expect_refused({"tokenize", "t.txt", "out.bin", "--tokenizer", "no.json"}, 1,
                 {"--tokenizer", "no.json", "no such file"});
  expect_refused({"tokenize", "bad.jsonl", "out.bin", "--tokenizer", "bytes"}, 1,
                 {"bad.jsonl:2", "text", "5"});
  expect_refused({"tokenize", "t.txt", "out.bin", "--tokenizer", "bytes", "--vocab", "98"}, 1,
                 {"out.bin", "token 1", "id 98"});
  expect_refused({"tokenize", "cut.bin", "out.bin"}, 1, {"cut.bin", "header ends"});
  expect_refused({"tokenize", "t.txt", "bad.jsonl", "--tokenizer", "bytes"}, 1,
                 {"bad.jsonl", "is there"});
  expect_refused({"detokenize", "ids.jsonl", "out.bin", "--tokenizer", "bytes"}, 1,
                 {"ids.jsonl:1", "256"});
  expect_refused({"tokenize", "t.txt", "out.bin", "--tokenizer", "bytes", "--as", "zip"}, 2,
                 {"--as"});
  expect_nothing_at("out.bin");
}

// Chats too: each line is a document. The windows are those of the run's validation.
TEST_F(Tokens, DocumentsStayApartInEvalAsInTheRun) {
  std::string lines;
  for (int i = 0; i < 30; ++i)
    lines += fmt::format(R"({{"messages": [{{"role": "assistant", "content": "{}"}}]}})"
                         "\n{{\"text\": \"{}\"}}\n",
                         100 + i, 300 + i);
  for (const char* name : {"d.jsonl", "v.jsonl"}) write_text(path(name), lines);
  (void)run_well({"train", "tiny.toml", "--out", "r", "--recipe", "fp32", "--set", "train.steps=3",
                  "--set", "data.train=d.jsonl", "--set", "data.validation=v.jsonl", "--set",
                  "data.template=chatml", "--set", "train.document_mask=true"});
  double validated = 0;
  std::istringstream metrics(text_of(path("r/metrics.jsonl")));
  for (std::string line; std::getline(metrics, line);) {
    const Json json = parse_json(line, "");
    validated = json.value("val_loss", validated);
  }
  const auto loss_of = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> command = {"eval",       "r/model", "--data", "d.jsonl",
                                        "--template", "chatml",  "--json"};
    command.insert(command.end(), flags.begin(), flags.end());
    return parse_json(run_well(command), "")["loss"].get<double>();
  };
  EXPECT_NEAR(loss_of({"--document-mask"}), validated, 1e-6) << "FP32 summed in other batches";
  EXPECT_GT(std::fabs(loss_of({}) - validated), 1e-4);
  EXPECT_NE(loss_of({"--document-mask", "--prefix-end"}), loss_of({"--prefix-end"}));
}

// In the first half, where training reads, and in the second, which is validation.
TEST_F(Tokens, AForeignIdEndsWhatReadsIt) {
  const auto write = [&](size_t at, int64_t id) {
    std::vector<int64_t> ids(1000, 'a');
    ids[at] = id;
    std::string file = npy_header("<i8", 1000);
    file.append(reinterpret_cast<const char*>(ids.data()), 8 * ids.size());
    write_text(path("t.npy"), file);
  };
  write(999, 'b');
  (void)run_well({"train", "tiny.toml", "--set", "train.steps=2", "--set", "data.train=t.npy",
                  "--out", "well"});
  for (const auto& [at, id] : {std::pair{size_t{200}, int64_t{-1}}, {800, int64_t{1} << 40}}) {
    write(at, id);
    const std::string said = fmt::format("t.npy: token {}: id {}: ids ", at, id);
    const Result trained =
        run({"train", "tiny.toml", "--set", "data.train=t.npy", "--set", "data.validation=0.5",
             "--set", "train.batch=16", "--out", fmt::format("run{}", at)});
    EXPECT_EQ(trained.code, 1);
    EXPECT_NE(trained.err.find(said), std::string::npos) << trained.err;
    EXPECT_EQ(std::count(trained.err.begin(), trained.err.end(), '\n'), 1) << trained.err;
    expect_refused({"eval", "well/model", "--data", "t.npy"}, 1, {said});
    expect_refused({"detokenize", "t.npy", "out.bin", "--tokenizer", "bytes"}, 1, {said});
    expect_refused({"tokenize", "t.npy", "out.bin"}, 1, {said});
    expect_refused({"tokenize", "t.npy", "out.bin", "--vocab", "256"}, 1, {said});
  }
  expect_nothing_at("out.bin");
}

TEST_F(Tokens, AShardTrainsToTheBitsOfItsText) {
  (void)run_well({"train", "tiny.toml", "--set", "train.steps=3", "--out", "text"});
  (void)run_well({"tokenize", "tiny.txt", "t.bin", "--tokenizer", "bytes"});
  (void)run_well({"train", "tiny.toml", "--set", "train.steps=3", "--set", "data.train=t.bin",
                  "--out", "shard"});
  EXPECT_EQ(text_of(path("text/model/model.safetensors")),
            text_of(path("shard/model/model.safetensors")));
  const auto evaluated = [&](const std::vector<std::string>& args) {
    Json json = parse_json(run_well(args), "");
    EXPECT_EQ(json["data"]["files"], 1);
    json.erase("data");  // which file it was
    return json;
  };
  const Json of_text = evaluated({"eval", "text/model", "--data", "tiny.txt", "--json"});
  EXPECT_EQ(of_text, evaluated({"eval", "shard/model", "--data", "t.bin", "--json"}));
  (void)run_well({"tokenize", "t.bin", "t.u16", "--as", "uint16"});
  EXPECT_EQ(of_text,
            evaluated({"eval", "text/model", "--data", "t.u16", "--from", "uint16", "--json"}));
  expect_refused({"trace", "tiny.txt", "t.bin", "out"}, 1,
                 {"tiny.txt: is no folder and no GGUF file"});
  const Json whole =
      parse_json(run_well({"eval", "text/model", "--data", "t.bin", "--prefix-end", "--json"}), "");
  EXPECT_EQ(whole["tokens"].get<int64_t>(), of_text["tokens"].get<int64_t>() + 1);
}

}  // namespace
}  // namespace ng::e2e
