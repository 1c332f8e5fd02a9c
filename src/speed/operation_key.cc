#include "speed/operation_key.h"

#include <fmt/format.h>

#include "recipe/operand_keys.h"

namespace ng {
namespace {

class KeyWords {
 public:
  explicit KeyWords(std::string_view name) : key_{std::string(name), std::string(name)} {}
  [[nodiscard]] const OperationKey& key() const { return key_; }

  void add(const ConstView& x) {
    if (x.rows == 0) return append("-");
    size("{}x{}", x.rows, x.cols);
    key_.work += static_cast<double>(x.size());
    append("{}", x.element->name);
    if (x.has_scales()) append("/{} {}", x.scales.element->name, text_of(x.scales.block));
  }
  void add(const Operand& cast) {
    if (cast.element != nullptr) append("{}", print_operand(cast));
  }
  void add(const OperandSpec& spec) {
    add(spec.cast);
    size("{}x{}", spec.rows, spec.k_padded());
    append("{}{} {} {}", static_cast<int>(spec.contract), static_cast<int>(spec.side),
           spec.hadamard.size, spec.signed_zeros);
  }
  /// To a product it is the same how its factors came to be.
  void add_product(const OperandSpec& a, const OperandSpec& b) {
    for (const OperandSpec* spec : {&a, &b}) {
      const Operand& cast = spec->cast;
      size("{}x{}", spec->rows, spec->k_padded());
      append("{} {} {} {} {}", cast.element->name, text_of(cast.block), name_of(cast.scale),
             name_of(cast.tensor_scale), spec->signed_zeros);
      if (cast.tensor_block != Block()) append("{}", text_of(cast.tensor_block));
      if (cast.other != nullptr) append("{}", cast.other->name);
    }
    key_.work = static_cast<double>(a.rows * b.rows) * static_cast<double>(a.k_padded());
  }
  void add(const PackedOperand* packed) {
    if (packed != nullptr) add(packed->spec);
  }
  void add(const PrepareContext& context) {
    append("{}{}{}{} {}", context.stats != nullptr, context.amax != nullptr,
           context.mean != nullptr, context.update_history, context.whole_cols > 0);
    add(context.stored);
  }
  void add(const std::array<PrepareBoth::Made, 2>& made) {
    for (const PrepareBoth::Made& one : made) {
      add(one.packed);
      add(one.context);
    }
  }
  void add(const Stored& stored) {
    add(ConstView(stored.view));
    add(stored.cast);
  }
  void add(const UpdatedWeight& weight) {
    add(weight.value);
    add(weight.master);
    add(ConstView(weight.carry));
    append("{} {} {}", static_cast<int>(weight.rule), weight.momentum_feedback,
           static_cast<int>(weight.search));
  }
  void add(const AttentionShape& s) {
    size("{} {} {} {} {} {} {}", s.sequences, s.length, s.kv_length, s.heads, s.kv_heads,
         s.head_dim, s.window);
  }
  void add(const NoisyWeight& of) {
    append("{}", static_cast<int>(of.kind));
    add(of.weight);
  }
  void add(const Hadamard& hadamard) { append("{}", hadamard.size); }
  template <class Word>
  requires std::is_enum_v<Word>
  void add(Word word) { append("{}", static_cast<int>(word)); }
  template <class Op>
  requires requires(const Op& op) { Op::kName; }
  void add(const Op& op);

 private:
  template <class... Values>
  void append(fmt::format_string<Values...> format, Values&&... values) {
    const std::string word = ' ' + fmt::vformat(format, fmt::make_format_args(values...));
    key_.text += word;
    key_.kind += word;
  }
  template <class... Values>
  void size(fmt::format_string<Values...> format, Values&&... values) {
    key_.text += ' ' + fmt::vformat(format, fmt::make_format_args(values...));
  }
  OperationKey key_;
};

// Fields that operations share, by name: what of them tells one time from another.
template <class Op>
requires requires(const Op& op) { Op::kName; }
void KeyWords::add(const Op& op) {
  op.each_output([&](std::string_view, const ConstView& view) { add(view); });
  if constexpr (requires { op.source; }) add(op.source);
  if constexpr (requires { op.packed; }) add(op.packed);
  if constexpr (requires { op.spec; }) add(op.spec);
  if constexpr (requires { op.made; }) add(op.made);
  if constexpr (requires { op.context; }) add(op.context);
  if constexpr (
      requires { op.a.spec; } || requires { op.a->spec; })
    add(op.a);
  if constexpr (
      requires { op.b.spec; } || requires { op.b->spec; })
    add(op.b);
  if constexpr (requires { op.bias; }) add(ConstView(op.bias));
  if constexpr (requires { op.hadamard; }) add(op.hadamard);
  if constexpr (requires { op.into; }) add(op.into);
  if constexpr (requires { op.a->spec; }) add(op.sum);
  if constexpr (requires { op.cast; }) add(op.cast);
  if constexpr (requires { op.x.rows; }) add(ConstView(op.x));
  if constexpr (requires { op.dy; }) add(op.dy);
  if constexpr (requires { op.dresidual; }) add(op.dresidual);
  if constexpr (requires { op.gain; }) add(op.gain);
  if constexpr (requires { op.q; }) add(op.q);
  if constexpr (requires { op.tokens; }) add(op.tokens);
  if constexpr (requires { op.logits; }) add(ConstView(op.logits));
  if constexpr (requires { op.codes.rows; }) add(ConstView(op.codes));
  if constexpr (requires { op.y.cast; }) add(op.y);
  if constexpr (requires { op.shape; }) add(op.shape);
  if constexpr (requires { op.probabilities; }) add(op.probabilities);
  if constexpr (requires { op.kind; }) add(op.kind);
  if constexpr (requires { op.optimizer; }) add(op.optimizer);
  if constexpr (requires { op.weight; }) add(op.weight);
  if constexpr (requires { op.moment1; }) add(op.moment1);
  if constexpr (requires { op.moment2; }) add(op.moment2);
  if constexpr (requires { op.grad; }) add(ConstView(op.grad));
  if constexpr (requires { op.update; }) add(op.update);
  if constexpr (requires { op.of; }) add(op.of);
}

}  // namespace

OperationKey key_of(const Operation& operation) {
  return std::visit(
      [](const auto& op) {
        KeyWords words(op.kName);
        words.add(op);
        return words.key();
      },
      operation);
}

}  // namespace ng
