#include <algorithm>
#include <unordered_map>

#include "graph/op_traits_table.h"

namespace antegrad {

const OpRow& op_row(std::string_view base_name) {
  static const OpRow none{};
  static const auto* const rows = [] {
    auto* result = new std::unordered_map<std::string_view, const OpRow*>;
    for (const auto table : {pointwise_rows(), compute_rows(), other_rows()}) {
      for (const OpRow& row : table) result->emplace(row.name, &row);
    }
    return result;
  }();
  constexpr std::string_view kAten = "aten::";
  if (base_name.starts_with(kAten)) base_name.remove_prefix(kAten.size());
  const auto found = rows->find(base_name);
  return found == rows->end() ? none : *found->second;
}

OpTraits builtin_traits(std::string_view base_name) {
  const auto* row = &op_row(base_name);
  // "aten::add_" is the in-place form of "aten::add"; "aten::__lshift__" is a name of its own.
  const bool in_place = row->name.empty() && base_name.ends_with('_') && !base_name.ends_with("__");
  if (in_place) row = &op_row(base_name.substr(0, base_name.size() - 1));
  OpTraits traits = row->traits;
  traits.known = !row->name.empty();
  traits.mutates |= in_place && traits.known;
  return traits;
}

std::string builtin_inplace_name(std::string_view base_name, std::string_view overload) {
  std::string_view words = op_row(base_name).inplace;
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    const size_t equals = word.find('=');
    if (word.substr(0, equals) != overload) continue;
    return std::string(base_name) + "_." + std::string(word.substr(equals + 1));  // npos + 1 is 0
  }
  return {};
}

}  // namespace antegrad
