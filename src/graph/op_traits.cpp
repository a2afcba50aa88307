#include <unordered_map>

#include "graph/op.h"
#include "graph/op_traits_table.h"

namespace antegrad {
namespace {

// What only reads sizes, and what makes the same from numbers.
constexpr FactoryRow kFactories[] = {
    {"aten::zeros_like.default", "aten::zeros.default"},
    {"aten::ones_like.default", "aten::ones.default"},
    {"aten::full_like.default", "aten::full.default", 1},
    {"aten::empty_like.default", "aten::empty_strided.default", -1, true},
    {"aten::new_zeros.default", "aten::zeros.default"},
    {"aten::new_ones.default", "aten::ones.default"},
    {"aten::new_full.default", "aten::full.default", 2},
    {"aten::new_empty.default", "aten::empty_strided.default", -1, true},
    {"aten::new_empty_strided.default", "aten::empty_strided.default", -1, true},
    {"aten::zero.default", "aten::zeros.default"},
    {"aten::fill.Scalar", "aten::full.default", 1},
};

OpTraits traits_of(uint32_t flags) {
  OpTraits traits;
  traits.known = true;
  traits.pointwise = flags & kPointwise;
  traits.reduction = flags & kReduction;
  traits.view = flags & kView;
  traits.random = flags & kRandom;
  traits.effect = flags & kEffect;
  traits.compute_intensive = flags & kCompute;
  traits.collective = flags & kCollective;
  traits.mutates = flags & kMutates;
  traits.factory = flags & kFactory;
  traits.reads_data = !(flags & kMetaOnly);
  // A draw depends on its generator, so no second call gives the same bits.
  traits.deterministic = !(flags & (kNotSame | kRandom));
  traits.no_op_when_same_meta = flags & kNoOp;
  traits.reshape = flags & kReshape;
  traits.fuses = flags & kFuses;
  traits.fuses_inputs = flags & kFusesInputs;
  traits.gathers = flags & kGathers;
  traits.oversized = flags & kOversized;
  traits.leaves_device = flags & kLeavesDevice;
  return traits;
}

const std::unordered_map<std::string, OpTraits>& table() {
  static const auto* const rows = [] {
    auto* result = new std::unordered_map<std::string, OpTraits>;
    const auto full_name = [](std::string_view name) {
      const bool qualified = name.find("::") != std::string_view::npos;
      return qualified ? std::string(name) : "aten::" + std::string(name);
    };
    for (const PointwiseRow& row : pointwise_rows()) {
      result->emplace(full_name(row.base_name), traits_of(row.flags | kPointwise));
    }
    for (const OpRow& row : other_rows()) {
      result->emplace(full_name(row.base_name), traits_of(row.flags));
    }
    return result;
  }();
  return *rows;
}

}  // namespace

const FactoryRow* factory_row(std::string_view name) {
  for (const FactoryRow& row : kFactories) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

OpTraits builtin_traits(std::string_view base_name) {
  std::string name(base_name);
  if (const auto found = table().find(name); found != table().end()) return found->second;
  // "aten::add_" is "aten::add" written in place; "aten::__lshift__" is a name of its own.
  if (!name.ends_with('_') || name.ends_with("__")) return {};
  name.pop_back();
  const auto found = table().find(name);
  if (found == table().end()) return {};
  OpTraits traits = found->second;
  traits.mutates = true;
  return traits;
}

}  // namespace antegrad
