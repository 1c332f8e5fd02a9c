// report.html and the events beside it, as `train` and `compare` leave them.
#include <algorithm>
#include <map>

#include "base/json.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Report : public Program {
 protected:
  /// What the page of a folder shows.
  [[nodiscard]] Json page(const std::string& folder) const {
    const std::string html = text_of(path(folder) / "report.html");
    const std::string open = "id=\"data\">";
    const size_t begin = html.find(open);
    if (begin == std::string::npos) return nullptr;
    const size_t end = html.find("</script>", begin);
    return Json::parse(html.substr(begin + open.size(), end - begin - open.size()));
  }
  [[nodiscard]] std::vector<std::string> event_files(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(folder)))
      if (entry.path().filename().string().starts_with("events.out.tfevents."))
        names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
};

const Json& section(const Json& page, const std::string& heading) {
  for (const Json& one : page["sections"])
    if (one["heading"].get<std::string>().starts_with(heading)) return one;
  throw std::runtime_error("no section " + heading);
}

const Json& line(const Json& chart, const std::string& name) {
  for (const Json& one : chart["lines"])
    if (one["name"] == name) return one;
  throw std::runtime_error("no line " + name);
}

Json steps_to(int last) {
  Json steps = Json::array();
  for (int step = 1; step <= last; ++step) steps.push_back(double(step));
  return steps;
}

TEST_F(Report, OfARunShowsAllOfIt) {
  const std::string out = run_well({"train", "tiny.toml", "--out", "run"});
  EXPECT_NE(out.find("\nreport      run/report.html\n"), std::string::npos) << out;
  const Json all = page("run");
  EXPECT_EQ(all["title"], "Training run tiny");
  EXPECT_TRUE(all["subtitle"].get<std::string>().starts_with("12 of 12 steps, 1,536 tokens in "));
  const Json& loss = section(all, "Loss")["charts"][0];
  EXPECT_EQ(line(loss, "training")["x"], steps_to(12));
  EXPECT_EQ(line(loss, "validation")["x"], Json::parse("[6, 12]"));
  const Json& course = section(all, "Learning rate")["charts"];
  ASSERT_EQ(course.size(), 3u);
  for (const Json& chart : course) EXPECT_EQ(chart["lines"][0]["x"], steps_to(12));

  const Json& casts = section(all, "What casts lose")["choices"];
  ASSERT_EQ(casts.size(), 3u) << "all blocks and each of two";
  ASSERT_EQ(casts[0]["charts"].size(), 4u * 3u) << "four operands in MXFP4, three losses";
  const Json& sqnr = line(casts[2]["charts"][0], "mlp.up");
  EXPECT_EQ(casts[2]["charts"][0]["title"], "dgrad.grad");
  EXPECT_EQ(sqnr["x"], Json::parse("[1, 12]"));
  EXPECT_GT(sqnr["y"][0], 8.0);
  EXPECT_LT(sqnr["y"][0], 30.0);

  const Json& updates = section(all, "What updates do")["choices"];
  ASSERT_EQ(updates.size(), 3u);
  ASSERT_EQ(updates[0]["charts"].size(), 4u) << "no alpha";
  const Json& changed = line(updates[1]["charts"][0], "mlp.up");
  EXPECT_EQ(changed["x"], Json::parse("[1, 12]"));
  EXPECT_GT(changed["y"][0], 0.9);

  const Json& memory = section(all, "Time and memory")["table"];
  EXPECT_EQ(memory["rows"][0][0]["text"], "weights, fp32");
  EXPECT_EQ(memory["rows"][0][2]["text"], "4.00 B");
  const Json& bars = section(all, "Time and memory")["bars"];
  EXPECT_GE(bars[0]["bars"].size(), 8u);
  EXPECT_GE(bars[1]["bars"].size(), 6u);
  EXPECT_NE(section(all, "Recipe")["listings"][1]["text"].get<std::string>().find("hadamard"),
            std::string::npos);
  EXPECT_FALSE(section(all, "Sample")["listings"][0]["text"].get<std::string>().empty());
  EXPECT_EQ(event_files("run").size(), 1u);
}

TEST_F(Report, OfARunWithNoiseShowsWhatItLearnedBlockByBlock) {
  const std::vector<std::string> args = {"train",    "tiny.toml",   "--out", "run",
                                         "--recipe", "gaussws-all", "--set", "train.steps=8"};
  (void)run_well(args);
  const Json inspected =
      Json::parse(run_well({"inspect", "run/checkpoints/step-00000008", "--tensor", "weight.*.b_i",
                            "--format", "fp8_e4m3", "--json"}))["files"][0];
  const auto b_t_of = [&](const std::string& layer) -> Json {
    for (const Json& one : inspected["bit_widths"]["layers"])
      if (one["layer"] == layer) return one["b_t"];
    return nullptr;
  };
  const Json all = page("run");
  const Json& ranges = section(all, "Bit-widths that noise learns")["ranges"];
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0]["title"], "Bit-width by layer after 8 steps");
  ASSERT_EQ(ranges[0]["items"].size(), 14u);
  EXPECT_EQ(ranges[0]["items"][5]["name"], "blocks.0.mlp.down");
  EXPECT_LT(ranges[0]["items"][5]["low"], ranges[0]["items"][5]["high"]);
  const std::string note = ranges[0]["note"];
  EXPECT_TRUE(
      note.starts_with("Of 81,920 weights with noise 0.0 % have a b_t of 5 or less, "
                       "100.0 % of 9 or less"))
      << note;

  const Json& maps = section(all, "Bit-widths of the blocks")["choices"];
  ASSERT_EQ(maps.size(), 2u);
  const Json& up = maps[1]["maps"]["maps"][6];
  EXPECT_EQ(up["title"], "blocks.1.mlp.up");
  ASSERT_EQ(up["rows"], 4);
  ASSERT_EQ(up["cols"], 2);
  for (size_t row = 0; row < 4; ++row)
    for (size_t col = 0; col < 2; ++col)
      EXPECT_NEAR(up["values"][2 * row + col].get<double>(),
                  b_t_of("blocks.1.mlp.up")[row][col].get<double>(), 5.01e-4)
          << row << ' ' << col;
  EXPECT_EQ(text_of(path("run/metrics.jsonl")).find("\"b_t\""), std::string::npos);

  // Made again by a process that trains no step.
  fs::remove(path("run/report.html"));
  std::vector<std::string> again = args;
  again.emplace_back("--resume");
  (void)run_well(again);
  EXPECT_EQ(section(page("run"), "Bit-widths of the blocks"),
            section(all, "Bit-widths of the blocks"));
}

TEST_F(Report, OfARunWithOneBitWidthALayerHasNoMaps) {
  (void)run_well(
      {"train", "tiny.toml", "--out", "run", "--recipe", "nipq", "--set", "train.steps=2"});
  const Json all = page("run");
  EXPECT_EQ(section(all, "Bit-widths that noise learns")["ranges"][0]["items"].size(), 14u);
  EXPECT_THROW((void)section(all, "Bit-widths of the blocks"), std::runtime_error);
}

TEST_F(Report, OfAnInterruptedAndResumedRunShowsTheWholeRun) {
  const std::vector<std::string> args = {
      "train", "tiny.toml",      "--out", "run",
      "--set", "train.steps=60", "--set", "train.checkpoint_every=7"};
  Process process(args, folder_);
  process.read_until([](const std::string& out) { return out.find("\nstep ") != out.npos; });
  process.send(SIGINT);
  ASSERT_EQ(process.wait().code, 130);
  const Json before = page("run");
  const size_t done = line(section(before, "Loss")["charts"][0], "training")["x"].size();
  EXPECT_GE(done, 1u);
  EXPECT_LT(done, 60u);
  std::vector<std::string> more = args;
  more.emplace_back("--resume");
  (void)run_well(more);
  const Json after = page("run");
  EXPECT_EQ(line(section(after, "Loss")["charts"][0], "training")["x"], steps_to(60));
  const auto total = [](const Json& page) {
    double seconds = 0;
    for (const Json& bar : section(page, "Time and memory")["bars"][0]["bars"])
      seconds += bar["value"].get<double>();
    return seconds;
  };
  EXPECT_GT(total(after), total(before)) << "times of both processes";
  EXPECT_EQ(event_files("run").size(), 2u);
}

TEST_F(Report, OfARunWithOtherSettingsSinceAStepSaysWhere) {
  const std::vector<std::string> args = {"train", "tiny.toml", "--out", "run", "--set"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), args.begin(), args.end());
    return more;
  };
  (void)run_well(with({"train.steps=4"}));
  EXPECT_EQ(page("run")["marks"], Json::array());
  const Result resumed = run(with({"train.steps=4", "--resume"}));
  EXPECT_NE(resumed.err.find("resuming at step 4\n"), std::string::npos) << resumed.err;
  EXPECT_EQ(page("run")["marks"], Json::array()) << "nothing changed";
  (void)run(with({"train.steps=8", "--set", "train.clip=0.5", "--resume"}));
  const Json all = page("run");
  ASSERT_EQ(all["marks"].size(), 1u);
  EXPECT_EQ(all["marks"][0]["step"], 4.5);
  const Json& rows = section(all, "Settings that changed")["table"]["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0], Json::parse(R"([{"text": "4"}, {"text": "train.clip"}, {"text": "1"},
                                     {"text": "0.5"}])"));
  EXPECT_EQ(rows[1][1]["text"], "train.steps");
  EXPECT_NE(text_of(path("run/run.toml")).find("\n# after step 4: train.steps: 4 -> 8\n"),
            std::string::npos);
  (void)run_well({"train", "run/run.toml", "--out", "run", "--resume"});
  EXPECT_EQ(page("run")["title"], "Training run run") << "run is its folder here";
  fs::rename(path("run"), path("mine"));
  (void)run_well({"train", "mine/run.toml", "--out", "mine/", "--resume"});
  EXPECT_EQ(page("mine")["title"], "Training run mine");
}

TEST_F(Report, OfARunWithPhasesMarksWhereTheyBegin) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--threads", "1", "--set",
                  "recipe.phase=[{start=0.5, linear='bf16'}]"});
  const Json all = page("run");
  EXPECT_EQ(all["marks"], Json::parse(R"([{"step": 6.5, "lines":
      ["phase 1 of the recipe: linear = bf16"]}])"));
  std::map<std::string, std::string> facts;
  for (const Json& fact : all["facts"]) facts[fact[0]] = fact[1];
  EXPECT_TRUE(facts["backend"].ends_with(", 1 thread)")) << facts["backend"];
  EXPECT_NE(facts["text"].find(" to validate on: "), std::string::npos) << facts["text"];
  const std::string note = section(all, "Learning rate")["note"];
  EXPECT_NE(note.find(", 1 thread, as it was"), std::string::npos) << note;
}

TEST_F(Report, OfARunThatFailsShowsHowItDid) {
  // Weight decay of 0.1 · lr makes every weight -99 times what it was, step by step.
  const Result result =
      run({"train", "tiny.toml", "--out", "run", "--recipe", "fp32", "--set", "train.lr=1000",
           "--set", "train.schedule=constant", "--set", "train.steps=60"});
  ASSERT_EQ(result.code, 1) << result.out;
  EXPECT_NE(page("run")["subtitle"].get<std::string>().find(" steps skipped"), std::string::npos)
      << page("run")["subtitle"];
}

TEST_F(Report, ThatCannotBeWrittenDoesNotEndARun) {
  fs::create_directories(path("run/report.html"));
  const Result result = run({"train", "tiny.toml", "--out", "run"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_NE(result.err.find("report.html"), std::string::npos) << result.err;
  EXPECT_FALSE(weights("run").empty());
}

TEST_F(Report, OfAComparisonHasALineForEachRecipe) {
  const std::string out = run_well({"compare", "tiny.toml", "--recipes", "fp32,mxfp4-all,nvfp4",
                                    "--seeds", "2", "--out", "out", "--set", "train.steps=6"});
  EXPECT_NE(out.find("out/report.html\n"), std::string::npos) << out;
  const Json all = page("out");
  EXPECT_EQ(all["subtitle"], "8 of 8 runs are finished");
  const Json& rows = section(all, "Results")["table"]["rows"];
  ASSERT_EQ(rows.size(), 4u) << "and a twin";
  EXPECT_EQ(rows[1][0]["text"], "mxfp4-all");
  const Json& intervals = section(all, "Results")["ranges"][0];
  ASSERT_EQ(intervals["items"].size(), 3u * 2u) << "in own numbers and in BF16";
  EXPECT_EQ(intervals["items"][0]["group"], "mxfp4-all");
  EXPECT_LT(intervals["items"][0]["low"], intervals["items"][0]["mean"]);
  EXPECT_EQ(intervals["levels"], Json({0.0}));
  for (const Json& item : intervals["items"]) EXPECT_GT(item["floor"].get<double>(), 0) << item;
  EXPECT_NE(intervals["items"][0]["floor"], intervals["items"][1]["floor"]) << "in BF16 another";
  EXPECT_NE(intervals["note"].get<std::string>().find("Dashed above and below 0"),
            std::string::npos);
  const Json& charts = section(all, "Loss")["charts"];
  ASSERT_EQ(charts.size(), 3u);
  for (const Json& chart : charts) {
    ASSERT_EQ(chart["lines"].size(), 3u);
    EXPECT_EQ(chart["lines"][2]["name"], "nvfp4");
    EXPECT_EQ(chart["lines"][2]["low"].size(), chart["lines"][2]["x"].size()) << "a band";
  }
  for (const Json& y : charts[1]["lines"][0]["y"]) EXPECT_EQ(y, 0.0) << "the first to itself";
  const Json& casts = section(all, "What casts lose")["charts"];
  ASSERT_EQ(casts.size(), 6u * 3u);
  EXPECT_EQ(casts[0]["lines"].size(), 2u) << "nothing to count in FP32";
  EXPECT_EQ(section(all, "Time and memory")["bars"].size(), 6u);
  const Json& link = section(all, "Runs")["table"]["rows"][5][6]["link"];
  EXPECT_TRUE(fs::is_regular_file(path("out") / link.get<std::string>())) << link;
}

}  // namespace
}  // namespace ng::e2e
