#include "recipe/noise_keys.h"

#include "format/operand_values.h"
#include "recipe/operand_keys.h"
#include "recipe/update_words.h"

namespace ng {
namespace {

constexpr const char* kByTable = "table";

Key<RecipeSettings> noise_block_key() {
  const std::string expected = "[32, 32] or \"tensor\"";
  return {{.path = "weight_noise.block",
           .expected = expected,
           .doc = "weights of one bit-width",
           .type = "list or string",
           .example = "\"tensor\""},
          [=](RecipeSettings& s, const TomlItem& item) {
            const Block block = read_block(item);
            const bool square = block.kind == Block::Kind::tile && block.rows == kNoiseBlock &&
                                block.cols == kNoiseBlock;
            if (!square && block.kind != Block::Kind::tensor) item.refuse_value(expected);
            s.weight_noise.block = block;
          },
          [](const RecipeSettings& s) { return print_block(s.weight_noise.block); }};
}

Key<RecipeSettings> noise_cast_key() {
  return {
      {.path = kNoiseCast,
       .expected = "a format name, a table of operand keys, or \"table\"",
       .doc = "numbers of the noisy weight, which GEMMs read as it is stored; \"table\": of each "
              "block those that the source's Table C.1 names for its bits",
       .takes_table = true,
       .type = kOperandType,
       .equation = "ŵ = Q(w + R · s), one rounding",
       .example = "\"mxfp8_e4m3\""},
      [](RecipeSettings& s, const TomlItem& item) {
        WeightNoise& noise = s.weight_noise;
        noise.casts_by_table = item.value->value<std::string>() == kByTable;
        if (noise.casts_by_table)
          noise.cast = operand_of("bf16");
        else
          change_operand(noise.cast, item);
      },
      [](const RecipeSettings& s) {
        const WeightNoise& noise = s.weight_noise;
        if (noise.casts_by_table) return toml_quote(kByTable);
        if (noise.casts_plainly()) return toml_quote(noise.cast.is_fp32() ? "fp32" : "bf16");
        return print_operand(noise.cast);
      }};
}

/// The layers that get noise, and what noise.
void add_kind(Keys<RecipeSettings>& keys) {
  using Kind = NoiseKind;
  keys.push_back(choice_key<RecipeSettings>(
      "weight_noise.kind", [](auto& s) -> auto& { return s.weight_noise.kind; },
      Choices<Kind>{{{"none", Kind::none},
                     {"gaussws", Kind::gaussws},
                     {"diffq", Kind::diffq},
                     {"nipq", Kind::nipq}}},
      "noise of the size of a quantization error added to weights"));
  keys.back().beside = "block = \"tensor\"";
  keys.back().equation =
      "ŵ = w + R · max |w| of the block · 2^(1 - b); gaussws: R rounded normal in {0, ±1, ±2}; "
      "diffq: R uniform in ±1/2; nipq: clipped at a learned α, n · α / (2^(b - 1) - 1)";
  keys.push_back(texts_key<RecipeSettings>(
      "weight_noise.layers", [](auto& s) -> auto& { return s.weight_noise.layers; },
      "a list of layer patterns", "layers that get noise; never embeddings or the head"));
  keys.push_back(boolean_key<RecipeSettings>(
      "weight_noise.optional", [](auto& s) -> auto& { return s.weight_noise.is_optional; },
      "whether no layer of a model need be one of them, which is an error else"));
  keys.push_back(noise_block_key());
}

void add_bits(Keys<RecipeSettings>& keys) {
  const auto number = [&](const char* name, auto get, NumberRange range, const char* doc,
                          const char* equation) {
    keys.push_back(
        number_key<RecipeSettings>(std::string("weight_noise.") + name, get, range, doc));
    keys.back().equation = equation;
  };
  const char* const bits = "b = b_target + b_i · (b_init - b_target), b_i learned from 1 on";
  number(
      "b_init", [](auto& s) -> auto& { return s.weight_noise.b_init; }, {0, 24},
      "bit-width at the start", bits);
  number(
      "b_target", [](auto& s) -> auto& { return s.weight_noise.b_target; }, {0, 24},
      "bit-width that the decay pulls to", bits);
  number(
      "bitwidth_weight_decay",
      [](auto& s) -> auto& { return s.weight_noise.bitwidth_weight_decay; }, {0, 1e6},
      "decoupled decay of the bit-widths",
      "b_i ← b_i · (1 - lr · bitwidth_weight_decay) at each update");
  number(
      "bitwidth_loss", [](auto& s) -> auto& { return s.weight_noise.bitwidth_loss; }, {0, 1e6},
      "weight of the distance to b_target in the loss",
      "loss + bitwidth_loss · mean |b - b_target| of each layer");
}

}  // namespace

const Operand* narrow_noise_cast(const RecipeSettings& settings) {
  const WeightNoise& noise = settings.weight_noise;
  return noise.casts_by_table || noise.casts_plainly() ? nullptr : &noise.cast;
}

Keys<RecipeSettings> weight_noise_keys() {
  Keys<RecipeSettings> keys;
  add_kind(keys);
  add_bits(keys);
  keys.push_back(noise_cast_key());
  return keys;
}

}  // namespace ng
