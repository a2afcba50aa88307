#include "graph/compare.h"

#include "graph/lockstep.h"

namespace antegrad {

std::string first_difference(const Graph& a, const Graph& b) {
  if (a.symbols != b.symbols) return "symbols";
  Lockstep walk([](const IntExpr& x, const IntExpr& y, const Place& /*place*/) { return x == y; });
  return walk.graphs(a, b) ? "" : difference_text(a, b, walk.place());
}

}  // namespace antegrad
