#include "backward/origins.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "torch_compat/node_formulas.h"

namespace antegrad::backward {

std::vector<std::string> names_of_nodes(const torch_compat::BackwardPass& pass) {
  struct Callable {
    size_t number = 0;
    int calls = 0;
  };
  std::map<std::string, Callable> callables;
  std::vector<std::string> names;
  for (const auto& of_pass : pass.nodes) {
    auto name = of_pass.node->name();
    if (!torch_compat::is_region(*of_pass.node)) {
      names.push_back(fmt::format("{} {}", names.size(), name));
      continue;
    }
    auto& callable = callables.try_emplace(name, Callable{callables.size()}).first->second;
    const int call = callable.calls++;
    name.erase(0, name.find(':') + 1);
    names.push_back(call == 0 ? fmt::format("aot{}_{}", callable.number, name)
                              : fmt::format("aot{}_{}_{}", callable.number, call, name));
  }
  return names;
}

void Origins::begin(int32_t node, const std::string& name) {
  if (!from_.empty() && from_.back().first == node) from_.pop_back();  // it recorded nothing
  from_.emplace_back(node, name);
}

std::string Origins::of(int32_t node) const {
  const auto behind =
      std::ranges::upper_bound(from_, node, {}, [](const auto& it) { return it.first; });
  return behind == from_.begin() ? "" : std::prev(behind)->second;
}

std::string Origins::text(int32_t nodes) const {
  std::string text;
  for (size_t i = 0; i < from_.size(); ++i) {
    const int32_t end = i + 1 < from_.size() ? from_[i + 1].first : nodes;
    if (end > from_[i].first) {
      text += fmt::format("{} to {}: {}\n", from_[i].first, end - 1, from_[i].second);
    }
  }
  return text;
}

}  // namespace antegrad::backward
