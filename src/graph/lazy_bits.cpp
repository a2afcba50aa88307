#include "graph/lazy_bits.h"

#include <algorithm>

namespace antegrad {

LazyBits behind(Op op, LazyBits bits) {
  bits.conj ^= op.traits().toggles_conj;
  bits.neg ^= op.traits().toggles_neg;
  return bits;
}

LazyBits lazy_bits(const Graph& graph, ValueId value) {
  LazyBits bits;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const auto& outputs = node->outputs;
    if (std::find(outputs.begin(), outputs.end(), value) == outputs.end()) continue;
    if (!node->op.traits().view || node->inputs.empty()) break;
    bits = behind(node->op, bits);
    value = node->inputs[0];
  }
  return bits;
}

}  // namespace antegrad
