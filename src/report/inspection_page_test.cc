#include "report/inspection_page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "format/operand.h"
#include "recipe/cast_words.h"

namespace ng::report {
namespace {

FormatTrial trial(const std::string& name, const std::string& rule, double mse, double squares,
                  uint64_t values) {
  FormatTrial made;
  made.name = name;
  made.rule = rule;
  made.cast = operand_of(name);
  made.bits = 4.25;
  made.errors.values = values;
  made.errors.mse = mse;
  made.errors.relative_mse = mse * static_cast<double>(values) / squares;
  made.errors.sqnr_db = -10 * std::log10(made.errors.relative_mse);
  return made;
}

// `values` values of 1, of which mxfp4 loses `mse` by floor and half of that by mse.
InspectedTensor tensor(const std::string& name, uint64_t values, double mse) {
  InspectedTensor made;
  made.name = name;
  made.dtype = "F32";
  made.shape = {1, static_cast<int64_t>(values)};
  made.facts.values = values;
  made.facts.min = made.facts.max = 1;
  made.facts.squares = made.facts.sum = static_cast<double>(values);
  made.facts.binades.count[-Binades::kLowest] = values;
  made.trials = {{trial("mxfp4", "floor", mse, made.facts.squares, values),
                  trial("mxfp4", "mse", mse / 2, made.facts.squares, values)},
                 {trial("bf16", "", 0, made.facts.squares, values)}};
  return made;
}

TEST(InspectionPage, TotalsAreThoseOfAllValuesTogether) {
  std::vector<InspectedTensor> tensors = {tensor("a", 100, 0.01), tensor("b", 300, 0.03)};
  tensors.push_back(tensor("zeros", 50, 0));
  tensors.back().facts.zeros = 50;
  const auto totals = totals_of(tensors);
  ASSERT_EQ(totals.size(), 2u);
  ASSERT_EQ(totals[0].size(), 2u);
  EXPECT_NEAR(totals[0][0].of_all.errors.sqnr_db, -10 * std::log10((100 * 0.01 + 300 * 0.03) / 400),
              1e-9);
  EXPECT_NEAR(totals[0][1].of_all.errors.sqnr_db - totals[0][0].of_all.errors.sqnr_db,
              10 * std::log10(2.0), 1e-9);
  EXPECT_EQ(totals[0][1].of_all.rule, "mse");
  EXPECT_EQ(totals[0][0].least_named, "b");
  EXPECT_NEAR(totals[0][0].least_db, -10 * std::log10(0.03), 1e-9);
  EXPECT_TRUE(std::isinf(totals[1][0].of_all.errors.sqnr_db));
  EXPECT_TRUE(totals_of({tensors.back()}).empty());
}

TEST(InspectionPage, HasPicturesTablesAndHistograms) {
  Inspection inspection{.name = "m", .summary = {}, .recipe = "r (hash 0)", .tensors = {}};
  for (int block = 0; block < 3; ++block)
    for (const char* kind : {"attn.q", "mlp.up"}) {
      inspection.tensors.push_back(
          tensor(fmt::format("blocks.{}.{}.weight", block, kind), 64, 0.01 * (block + 1)));
      inspection.tensors.back().parameter = inspection.tensors.back().name;
    }
  inspection.tensors[0].uses = {{.layer = "blocks.0.attn.q",
                                 .operand = "fprop.weight",
                                 .trial = inspection.tensors[0].trials[0][0],
                                 .hadamard = 32}};
  const Json page = json_of(inspection_page(inspection));
  ASSERT_EQ(page["sections"].size(), 4u);
  const Json& formats = page["sections"][0];
  EXPECT_NE(formats["pictures"][0].get<std::string>().find("rule mse"), std::string::npos);
  EXPECT_EQ(formats["table"]["rows"].size(), 3u) << "a row for each rule";
  const Json& layers = page["sections"][1];
  const std::string svg = layers["pictures"][0];
  EXPECT_NE(svg.find("block"), std::string::npos);
  EXPECT_NE(svg.find("mlp.up"), std::string::npos);
  EXPECT_EQ(layers["table"]["rows"].size(), 6u);
  const Json& recipe = page["sections"][2];
  ASSERT_EQ(recipe["table"]["rows"].size(), 1u);
  EXPECT_EQ(recipe["table"]["rows"][0][2]["text"], "fprop.weight");
  EXPECT_EQ(recipe["table"]["rows"][0][8]["text"], "32");
  for (const Json& table : {formats["table"], recipe["table"]}) {
    const Json& heading = table["heading"];
    const auto bits = std::ranges::find(heading, "bits/value") - heading.begin();
    EXPECT_EQ(table["rows"][0][bits]["text"], "4.25");
    EXPECT_EQ(heading[bits + 1], "SQNR dB");
  }
  const Json& choices = page["sections"][3]["choices"];
  ASSERT_EQ(choices.size(), 6u);
  const Json& histogram = choices[0]["histograms"][0];
  EXPECT_EQ(histogram["counts"], Json({64}));
  EXPECT_EQ(histogram["top"], 0);
  EXPECT_EQ(histogram["rows"], Json::parse(R"([["mxfp4", "N"], ["bf16", "N"]])"));
}

TEST(InspectionPage, TensorsOutsideOfBlocksStandBesideEachOther) {
  Inspection inspection{.name = "m", .summary = {}, .recipe = "", .tensors = {}};
  inspection.tensors = {tensor("a", 64, 0.01), tensor("b", 64, 0.02)};
  const Json page = json_of(inspection_page(inspection));
  ASSERT_EQ(page["sections"].size(), 3u) << "no recipe";
  const std::string svg = page["sections"][1]["pictures"][0];
  EXPECT_NE(svg.find(">a<"), std::string::npos) << svg;
}

TEST(InspectionPage, SaysWhatWasChosenAndWhatHasNoScale) {
  Inspection inspection{
      .name = "m", .summary = {}, .chosen = "1 of 9 tensors", .recipe = "", .tensors = {}};
  inspection.tensors = {tensor("a", 64, 0.01)};
  Json page = json_of(inspection_page(inspection));
  EXPECT_EQ(page["facts"].back(), Json({"inspected", "1 of 9 tensors"}));
  const auto note = [&] { return page["sections"][0]["note"].get<std::string>(); };
  EXPECT_EQ(note().find("Without a scale"), std::string::npos) << "bf16 is wide:\n" << note();
  FormatTrial bare = trial("bf16", "", 0.5, inspection.tensors[0].facts.squares, 64);
  bare.name = "e3m2";
  bare.cast = cast_named("e3m2");
  inspection.tensors[0].trials.push_back({bare});
  page = json_of(inspection_page(inspection));
  EXPECT_NE(note().find("\nWithout a scale: e3m2."), std::string::npos) << note();
  EXPECT_EQ(page["sections"][0]["table"]["rows"].back()[1]["text"], "no scale");
}

}  // namespace
}  // namespace ng::report
