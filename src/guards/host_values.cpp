#include "guards/host_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <type_traits>

#include "guards/changed.h"

namespace antegrad::guards {

bool same_host(const HostValue& a, const HostValue& b) {
  const auto* x = std::get_if<double>(&a);
  const auto* y = std::get_if<double>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
}

bool same_host(const std::vector<HostValue>& a, const std::vector<HostValue>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const HostValue& x, const HostValue& y) { return same_host(x, y); });
}

uint64_t hash_value(const HostValue& value) {
  return std::visit(
      [](const auto& held) {
        if constexpr (std::is_same_v<decltype(held), const double&>) {
          return std::bit_cast<uint64_t>(held);
        } else {
          return static_cast<uint64_t>(std::hash<std::decay_t<decltype(held)>>()(held));
        }
      },
      value);
}

std::string host_text(const HostValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return "\"" + *text + "\"";
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

std::string host_text(const std::vector<HostValue>& values) {
  if (values.size() == 1) return host_text(values[0]);
  std::string text = "[";
  for (const auto& value : values) text += (text.size() > 1 ? ", " : "") + host_text(value);
  return text + "]";
}

std::string host_difference(const std::string& owner, const std::vector<HostValue>& was,
                            const std::vector<HostValue>& is) {
  const auto common = std::min(was.size(), is.size());
  for (size_t i = 0; i < common; ++i) {
    if (same_host(was[i], is[i])) continue;
    return changed(fmt::format("host value {} of {}", i, owner).c_str(), host_text(was[i]),
                   host_text(is[i]));
  }
  if (was.size() == is.size()) return "";
  return changed(("the number of host values of " + owner).c_str(), was.size(), is.size());
}

}  // namespace antegrad::guards
