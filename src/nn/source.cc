#include "nn/source.h"

#include <utility>

#include "base/error.h"

namespace ng {
namespace {

bool same_operand(const Prepared& made, const OperandSpec& spec, const RandomKey& key) {
  // A delayed scale belongs to one layer's operand: its history must see every step.
  if (spec.cast.scaling == Scaling::delayed) return false;
  return made.packed.spec == spec && (spec.cast.rounding == Rounding::nearest || made.key == key);
}

// An operand with its memory, to be filled.
Prepared reserve_operand(Run& run, const Tensor& owner, const OperandSpec& spec,
                         const PrepareContext& context) {
  Prepared made;
  made.packed.spec = spec;
  made.packed.bytes = run.operand_bytes(spec);
  made.key = context.key;
  if (made.packed.bytes > 0) {
    made.storage = run.bytes(made.packed.bytes, MemoryKind::operands);
    made.packed.storage = made.storage.bytes();
  } else {
    made.source = owner;
  }
  return made;
}

}  // namespace

Prepared prepare_operand(Run& run, const Tensor& owner, ConstView values, const OperandSpec& spec,
                         const PrepareContext& context) {
  Prepared made = reserve_operand(run, owner, spec, context);
  run.execute(Prepare{&made.packed, values, context});
  return made;
}

void Source::make_both(Run& run, const OperandRequest& first, const OperandRequest& second) {
  for (const OperandRequest* request : {&first, &second})
    NG_CHECK(request->spec.cast.scaling != Scaling::delayed, request->spec.rows);
  Prepared& a = next_slot() = reserve_operand(run, owner_, first.spec, first.context);
  Prepared& b = next_slot() = reserve_operand(run, owner_, second.spec, second.context);
  run.execute(PrepareBoth{{{{&a.packed, first.context}, {&b.packed, second.context}}}, values_});
}

const Prepared& Source::operand(Run& run, const OperandSpec& spec, const PrepareContext& context) {
  for (const Prepared& made : made_)
    if (made && same_operand(made, spec, context.key)) return made;
  return next_slot() = prepare_operand(run, owner_, values_, spec, context);
}

}  // namespace ng
