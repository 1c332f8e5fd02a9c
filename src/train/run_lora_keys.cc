#include <fmt/ranges.h>

#include <functional>

#include "train/run_keys.h"
#include "train/table_keys.h"

namespace ng {
namespace {

/// What adapters need.
constexpr const char* kRank = "rank = 8";
constexpr const char* kFrozen = "model.init = \"runs/first/model\"\n";

/// A table from patterns of layers to values. `value_of` reads one, `get` finds the member.
template <class Value>
RunKey pattern_key(const std::string& path, ByPattern<Value> Lora::*member, const std::string& of,
                   const std::function<Value(const TomlItem&)>& value_of, const std::string& doc) {
  return {{.path = path,
           .expected = fmt::format("a table from patterns of layers to {}", of),
           .doc = doc,
           .takes_table = true,
           .type = "table",
           .example = "{ \"attn.q\" = 16 }",
           .beside = kRank,
           .before = kFrozen},
          [=](RunConfig& c, const TomlItem& item) {
            const toml::table* table = item.value->as_table();
            if (table == nullptr) item.refuse_value(fmt::format("{{ \"attn.q\" = {} }}", of));
            ByPattern<Value>& values = c.lora.adapters.*member;
            values.clear();
            for (const auto& [pattern, value] : *table)
              values[std::string(pattern.str())] =
                  value_of({.value = &value,
                            .path = fmt::format("{}.{}", item.path, toml_key(pattern.str())),
                            .place = place_of(pattern.source())});
          },
          [=](const RunConfig& c) -> std::string {
            std::vector<std::string> pairs;
            for (const auto& [pattern, value] : c.lora.adapters.*member)
              pairs.push_back(fmt::format("{} = {}", toml_quote(pattern), print_value(value)));
            return pairs.empty() ? "{}" : fmt::format("{{ {} }}", fmt::join(pairs, ", "));
          }};
}

void add_lora_layers(Keys<RunConfig>& keys) {
  constexpr IntegerRange kRanks{1, 65'536};
  constexpr NumberRange kAlphas{0, 1e6, true};
  keys.push_back(pattern_key<int64_t>(
      "lora.rank_pattern", &Lora::rank_pattern, text_of(kRanks),
      [=](const TomlItem& item) { return read_integer(item, kRanks); },
      "ranks of layers that differ: { \"attn.q\" = 16 }; of several the one that says most "
      "counts"));
  keys.push_back(pattern_key<double>(
      "lora.alpha_pattern", &Lora::alpha_pattern, text_of(kAlphas),
      [=](const TomlItem& item) { return read_number(item, kAlphas); },
      "alphas of layers that differ, in the same way"));
}

}  // namespace

void add_lora_keys(Keys<RunConfig>& keys) {
  TableKeys lora(
      keys, "lora.", [](auto& c) -> auto& { return c.lora.adapters; });
  const char* const adapted = "W + s · B · A, s = alpha / rank, rank_stabilized: alpha / √rank";
  lora.integer("rank", &Lora::rank, {0, 65'536},
               "rank of the adapters that are trained beside frozen weights; 0: all weights are "
               "trained")
      .equation = adapted;
  lora.number("alpha", &Lora::alpha, {0, 1e6, true}, "adapters count alpha / rank times").equation =
      adapted;
  KeyRow& stabilized = lora.boolean("rank_stabilized", &Lora::is_rank_stabilized,
                                    "adapters count alpha / √rank times (rsLoRA)");
  stabilized.equation = adapted;
  stabilized.beside = kRank;
  stabilized.before = kFrozen;
  lora.texts("targets", &Lora::targets, "one or more patterns",
             "layers with adapters: attn.q, mlp.*, blocks.3.*");
  lora.texts("modules_to_save", &Lora::modules, "patterns of layers",
             "layers that are trained whole beside the adapters: embed, norm, head");
  keys.back().read = [](RunConfig& c, const TomlItem& item) {
    const toml::array* array = item.value->as_array();
    const bool is_none = array != nullptr && array->empty();
    c.lora.adapters.modules = is_none ? std::vector<std::string>() : read_texts(item);
  };
  add_lora_layers(keys);
  TableKeys run(keys, "lora.", &RunConfig::lora);
  KeyRow& init = run.text("init", &RunLora::init, "a PEFT folder, or nothing",
                          "adapters to go on from: ranks, alphas and layers are theirs");
  init.example = "\"runs/lora/model\"";
  init.before = kFrozen;
  KeyRow& save = run.choice("save", &RunLora::save,
                            Choices<RunLora::Save>{{{"merged", RunLora::Save::merged},
                                                    {"adapter", RunLora::Save::adapter}}},
                            "what model/ is: the whole model, or a PEFT folder of the adapters");
  save.beside = kRank;
  save.before = kFrozen;
}

}  // namespace ng
