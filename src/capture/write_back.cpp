#include "capture/write_back.h"

#include <antegrad/error.h>
#include <fmt/format.h>

#include <string>

#include "capture/call_site.h"
#include "capture/stand_in.h"
#include "graph/lazy_bits.h"

namespace antegrad::capture {

using torch::jit::Stack;

namespace {

/// The first step of base + sum(new - old). A program's own difference of bools raises eager's
/// error.
bool subtracts_bools(const InPlace& writing, const ops::OpEntry& entry, const Stack& stack) {
  if (entry.op.info().base_name != "aten::sub" || writing.op().info().base_name == "aten::sub_") {
    return false;
  }
  const auto& self = torch::jit::peek(stack, 0, entry.args.size());
  return self.isTensor() && self.toTensor().scalar_type() == at::kBool;
}

}  // namespace

const ops::OpEntry* written_back_as(const InPlace& writing, const ops::OpEntry& entry,
                                    const Stack& stack) {
  const auto bits = behind(entry.op, {});
  if (bits == LazyBits()) return nullptr;
  const auto* written = as_stand_in(stack.back().toTensor());
  if (written == nullptr || writing.writes_memory_of(written->value())) return nullptr;
  return &ops::entry_of(
      Op::intern(bits.conj ? "aten::_conj_physical.default" : "aten::neg.default"));
}

void round_factor(const ops::OpEntry& entry, Stack& stack) {
  if (!entry.op.traits().rounds_scalar_in_place) return;
  const auto& self = torch::jit::peek(stack, 0, entry.args.size()).toTensor();
  auto& factor = torch::jit::peek(stack, 1, entry.args.size());
  if (!self.device().is_cpu() || !at::isReducedFloatingType(self.scalar_type())) return;
  if (factor.isSymFloat()) factor = factor.toDouble();  // the rounded number is a constant
  if (!factor.isDouble()) return;
  const double exact = factor.toDouble();
  factor = self.scalar_type() == at::kHalf
               ? static_cast<double>(static_cast<c10::Half>(static_cast<float>(exact)))
               : static_cast<double>(static_cast<c10::BFloat16>(static_cast<float>(exact)));
}

void refuse_inexact_write_back(const InPlace& writing, const ops::OpEntry& entry,
                               const Stack& stack) {
  const OpRow& row =
      subtracts_bools(writing, entry, stack) ? op_row("aten::sum") : *entry.op.info().row;
  const auto& [view, part] = row.inexact_write;
  if (view.empty()) return;
  throw MutationError(std::string(view),
                      {"writes to tensors that show their base through other views",
                       fmt::format("a write to {} {}() shows, at {}", part, view, call_site()),
                       "write to the tensor itself through narrow() or select()"});
}

}  // namespace antegrad::capture
