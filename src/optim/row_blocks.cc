#include "optim/row_blocks.h"

#include "recipe/layer_names.h"

namespace ng {
namespace {

int64_t rows_of_head(const ParameterSpec& spec, int64_t heads) {
  if (heads < 1 || spec.rows % heads != 0)
    throw Error({.key = spec.name,
                 .problem = fmt::format("{} rows are not those of {} heads", spec.rows, heads),
                 .remedy = "give the numbers of heads that the model has"});
  return spec.rows / heads;
}

}  // namespace

RowBlocks row_blocks(const ParameterSpec& spec, int64_t heads, int64_t kv_heads) {
  const std::string_view layer = layers::layer_of(spec.name);
  const std::string_view part = layers::place_of(layer).part;
  const auto one_section = [&](int64_t block_rows) {
    return RowBlocks{{{{spec.rows, block_rows}}}};
  };
  if (spec.is_vector || layer == layers::kPos) return one_section(spec.rows);
  if (part == layers::kQ) return one_section(rows_of_head(spec, heads));
  if (part == layers::kK) return one_section(rows_of_head(spec, kv_heads));
  if (part != layers::kQkv) return one_section(1);
  const int64_t head = rows_of_head(spec, heads + 2 * kv_heads);
  return {{{{heads * head, head}, {kv_heads * head, head}, {kv_heads * head, 1}}}};
}

}  // namespace ng
