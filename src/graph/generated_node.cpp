#include "graph/generated_node.h"

#include <utility>

namespace antegrad {

Op generated_op() {
  static const auto op = [] {
    OpInfo info;
    info.name = "antegrad::kernel.default";
    info.base_name = "antegrad::kernel";
    info.traits.known = true;
    return Op::declare(std::move(info));
  }();
  return op;
}

bool is_generated(const Node& node) { return node.op == generated_op(); }

void make_generated(Node& node, int64_t place, const std::vector<MemoryReuse>& reuses) {
  node.op = generated_op();
  node.args.assign(node.inputs.size(), attr::Input{});
  node.args.emplace_back(IntExpr(place));
  Shape pairs;
  for (const MemoryReuse& reuse : reuses) {
    pairs.emplace_back(reuse.output);
    pairs.emplace_back(reuse.input);
  }
  node.args.emplace_back(std::move(pairs));
}

int64_t place_of_kernel(const Node& node) {
  return node.args[node.inputs.size()].as<IntExpr>().constant();
}

std::vector<MemoryReuse> memory_reuses(const Node& node) {
  const Shape& pairs = node.args.back().as<Shape>();
  std::vector<MemoryReuse> reuses;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    reuses.push_back(
        {static_cast<int32_t>(pairs[i].constant()), static_cast<int32_t>(pairs[i + 1].constant())});
  }
  return reuses;
}

}  // namespace antegrad
