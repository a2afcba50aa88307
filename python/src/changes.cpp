#include "changes.h"

#include <antegrad/error.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace antegrad::python {
namespace {

bool same_bits(const HostValue& a, const HostValue& b) {
  const auto* x = std::get_if<double>(&a);
  const auto* y = std::get_if<double>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
}

bool same(const Leaves& a, const Leaves& b) {
  const auto same_tensor = [](const at::Tensor& x, const at::Tensor& y) { return x.is_same(y); };
  return std::equal(a.host.begin(), a.host.end(), b.host.begin(), b.host.end(), same_bits) &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    same_tensor);
}

py::module_ helpers() { return py::module_::import("antegrad._structures"); }

}  // namespace

Contents::Contents(Containers& arguments) : seen_(arguments) {
  const auto size = seen_.size();
  for (size_t i = 0; i < size; ++i) before_.push_back(contents_of(i));
}

Leaves Contents::contents_of(size_t number) const {
  Leaves leaves;
  const auto size = seen_.size();
  flatten_contents(seen_[number], seen_, leaves);
  seen_.shrink(size);
  return leaves;
}

std::vector<size_t> Contents::changed(const py::tuple& args, const py::dict& kwargs) const {
  std::vector<size_t> changed;
  for (size_t i = 0; i < before_.size(); ++i) {
    if (same(before_[i], contents_of(i))) continue;
    changed.push_back(i);
    if (helpers().attr("is_replaceable")(seen_[i]).cast<bool>()) continue;
    throw MutationError(
        "",
        {"a function that changes lists, dictionaries, deques and dataclasses only, of its "
         "arguments",
         "a change in " + type_text(seen_[i]) + " (" +
             helpers().attr("place_of")(seen_[i], args, kwargs, py::none()).cast<std::string>() +
             ")",
         "return a new object instead"});
  }
  return changed;
}

void flatten_changes(const std::vector<size_t>& changed, Containers& seen, Leaves& leaves) {
  leaves.host.emplace_back(static_cast<int64_t>(changed.size()));
  for (const auto number : changed) {
    leaves.host.emplace_back(static_cast<int64_t>(number));
    flatten_contents(seen[number], seen, leaves);
  }
}

void make_changes(LeafReader& reader, Containers& seen) {
  std::vector<std::pair<py::object, py::object>> changed;
  for (auto left = reader.host<int64_t>(); left > 0; --left) {
    const auto number = static_cast<size_t>(reader.host<int64_t>());
    changed.emplace_back(seen[number], unflatten_contents(reader, seen));
  }
  if (changed.empty()) return;
  const auto replace = helpers().attr("replace");
  for (const auto& [container, contents] : changed) replace(container, contents);
}

}  // namespace antegrad::python
