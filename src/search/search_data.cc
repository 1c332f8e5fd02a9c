// A search as CSV and JSON.
#include <fmt/ranges.h>

#include <cmath>

#include "base/json.h"
#include "base/text.h"
#include "search/search_report.h"

namespace ng::search {
namespace {

constexpr const char* kGemms[] = {"fprop", "dgrad", "wgrad"};

Json recipe_json(const ReportedRecipe& one) {
  Json json = {{"label", one.label},
               {"recipe", one.recipe},
               {"recipe_hash", one.hash},
               {"changes", Json::object()},
               {"bits", Json::object()}};
  for (const auto& [key, value] : one.changes) json["changes"][key] = value;
  for (size_t g = 0; g < one.bits.size(); ++g)
    json["bits"][kGemms[g]] = {one.bits[g].left, one.bits[g].right};
  return json;
}

Json score_json(const GradientScore& score, double beta1) {
  return {{"bias", score.bias},
          {"noise", score.noise},
          {"moment_error", score.moment_error(beta1)},
          {"loss", score.loss}};
}

Json loss_json(const ComparedLoss& loss) {
  return {{"val_loss", loss.mean},
          {"difference", loss.difference.mean},
          {"difference_half_95", loss.difference.half},
          {"p_holm", loss.p_holm},
          {"verdict", loss.verdict}};
}

Json rows_json(const CompareTable& table) {
  Json rows = Json::array();
  for (const CompareRow& row : table.rows)
    rows.push_back({{"label", row.of.label},
                    {"against", row.against},
                    {"seeds", row.seeds},
                    {"diverged", row.diverged},
                    {"own", loss_json(row.own)},
                    {"bf16", loss_json(row.bf16)}});
  return rows;
}

Json rung_json(const RungOutcome& outcome) {
  return {{"steps", outcome.rung.steps},
          {"seeds", outcome.rung.seeds},
          {"kept", outcome.kept},
          {"to_base", rows_json(outcome.to_base)},
          {"to_best", rows_json(outcome.to_best)}};
}

Json plan_json(const std::vector<Rung>& plan) {
  Json rungs = Json::array();
  for (const Rung& rung : plan)
    rungs.push_back(
        {{"candidates", rung.candidates}, {"steps", rung.steps}, {"seeds", rung.seeds}});
  return rungs;
}

Json candidates_json(const SearchReport& report) {
  Json all = Json::array();
  const std::vector<Fate> fates = fates_of(report);
  for (size_t i = 0; i < fates.size(); ++i) {
    Json json = recipe_json(report.candidates[i]);
    if (report.has_all_scores()) json["gradient"] = score_json(report.scores[i + 1], report.beta1);
    json["dropped"] = fates[i].is_in ? Json()
                                     : Json{{"rung", fates[i].rung},
                                            {"why", fates[i].why},
                                            {"decided", fates[i].is_decided}};
    all.push_back(std::move(json));
  }
  return all;
}

std::string line_of(const std::vector<std::string>& fields) {
  std::vector<std::string> quoted;
  for (const std::string& field : fields) quoted.push_back(csv_field(field));
  return fmt::format("{}\n", fmt::join(quoted, ","));
}

std::string number_text(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "";
}

/// Of what stands in the last rung in which it ran.
std::vector<std::string> result_fields(const SearchReport& report, const std::string& label) {
  for (size_t r = report.rungs.size(); r-- > 0;)
    for (const CompareRow& row : report.rungs[r].to_base.rows) {
      if (row.of.label != label) continue;
      std::vector<std::string> fields = {std::to_string(r + 1),
                                         std::to_string(report.rungs[r].rung.steps),
                                         std::to_string(row.seeds.size())};
      for (const ComparedLoss* loss : {&row.own, &row.bf16})
        fields.insert(fields.end(),
                      {number_text(loss->difference.mean), number_text(loss->difference.half),
                       number_text(loss->p_holm), loss->verdict});
      return fields;
    }
  return std::vector<std::string>(11);
}

}  // namespace

std::string search_csv(const SearchReport& report) {
  std::string text = line_of({"label",
                              "recipe",
                              "changes",
                              "fprop_left_bits",
                              "fprop_right_bits",
                              "dgrad_left_bits",
                              "dgrad_right_bits",
                              "wgrad_left_bits",
                              "wgrad_right_bits",
                              "bias",
                              "noise",
                              "moment_error",
                              "loss_moved",
                              "rung",
                              "steps",
                              "seeds",
                              "difference",
                              "difference_half_95",
                              "p_holm",
                              "verdict",
                              "difference_bf16",
                              "difference_bf16_half_95",
                              "p_bf16_holm",
                              "verdict_bf16",
                              "dropped",
                              "decided"});
  const std::vector<Fate> fates = fates_of(report);
  for (size_t i = 0; i < fates.size(); ++i) {
    const ReportedRecipe& one = report.candidates[i];
    std::vector<std::string> fields = {one.label, one.recipe, text_of(one.changes)};
    for (const GemmBits& bits : one.bits)
      fields.insert(fields.end(), {number_text(bits.left), number_text(bits.right)});
    if (report.has_all_scores()) {
      const GradientScore& score = report.scores[i + 1];
      for (const double value :
           {score.bias, score.noise, score.moment_error(report.beta1), score.loss})
        fields.push_back(number_text(value));
    }
    fields.resize(13);
    const std::vector<std::string> results = result_fields(report, one.label);
    fields.insert(fields.end(), results.begin(), results.end());
    fields.push_back(fates[i].why);
    fields.emplace_back(fates[i].is_in ? "" : fates[i].is_decided ? "yes" : "no");
    text += line_of(fields);
  }
  return text;
}

Json search_json(const SearchReport& report) {
  const Decisions decisions = decisions_of(report);
  Json json = {{"base", recipe_json(report.base)},
               {"candidates", candidates_json(report)},
               {"left_out", report.left_out},
               {"plan", plan_json(report.plan)},
               {"rungs", Json::array()},
               {"best", report.best().empty() ? Json() : Json(report.best())},
               {"is_complete", report.is_complete()},
               {"decided", decisions.decided},
               {"open", decisions.open}};
  if (report.has_all_scores())
    json["base"]["gradient"] = score_json(report.scores.front(), report.beta1);
  for (const RungOutcome& outcome : report.rungs) json["rungs"].push_back(rung_json(outcome));
  return json;
}

}  // namespace ng::search
