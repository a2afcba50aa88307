#include "backward/numbers.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace antegrad::backward {
namespace {

constexpr size_t kBytes = sizeof(double);
static_assert(sizeof(int64_t) == kBytes);

template <class T>
T value_at(const std::string& key, size_t offset) {
  T value = 0;
  std::memcpy(&value, key.data() + offset, kBytes);
  return value;
}

bool is_integer(const ops::Number& number) { return std::holds_alternative<int64_t>(number); }

ops::Number number_at(const std::string& key, size_t offset, bool integer) {
  if (integer) return value_at<int64_t>(key, offset);
  return value_at<double>(key, offset);
}

// Where in a node's part of both keys these numbers are, one in each.
std::vector<size_t> offsets_of(const NumberedKey& a, const NumberedKey& b,
                               const NumberedKey::OfNode& node, const ops::Number& in_a,
                               const ops::Number& in_b) {
  std::vector<size_t> offsets;
  const bool integer = is_integer(in_a);
  const auto search = [&](const std::pair<size_t, size_t>& part, size_t step) {
    for (size_t at = part.first; at + kBytes <= part.second; at += step) {
      if (ops::same_number(number_at(a.key, at, integer), in_a) &&
          ops::same_number(number_at(b.key, at, integer), in_b)) {
        offsets.push_back(at);
      }
    }
  };
  search(node.in_key, 1);
  if (integer) search(node.in_sizes, kBytes);
  return offsets;
}

// The numbers of one node that changed; nothing if two of them cannot be told apart.
std::optional<std::vector<HeldNumber>> changed_in(const NumberedKey& a, const NumberedKey& b,
                                                  const NumberedKey::OfNode& in_a,
                                                  const NumberedKey::OfNode& in_b) {
  std::vector<HeldNumber> changed;
  for (size_t i = 0; i < in_a.numbers.size(); ++i) {
    if (ops::same_number(in_a.numbers[i], in_b.numbers[i])) continue;
    if (in_a.numbers[i].index() != in_b.numbers[i].index()) return std::nullopt;
    const auto offsets = offsets_of(a, b, in_a, in_a.numbers[i], in_b.numbers[i]);
    if (offsets.size() != 1) return std::nullopt;
    const auto known = std::ranges::find(changed, offsets[0], &HeldNumber::offset);
    if (known != changed.end()) return std::nullopt;
    changed.push_back(
        {in_a.place, static_cast<int32_t>(i), offsets[0], is_integer(in_a.numbers[i])});
  }
  return changed;
}

bool is_alike(const NumberedKey::OfNode& a, const NumberedKey::OfNode& b) {
  return a.place == b.place && a.in_key == b.in_key && a.in_sizes == b.in_sizes &&
         a.numbers.size() == b.numbers.size();
}

}  // namespace

std::optional<std::vector<HeldNumber>> changed_numbers(const NumberedKey& a, const NumberedKey& b) {
  if (a.key.size() != b.key.size() || a.nodes.size() != b.nodes.size()) return std::nullopt;
  std::vector<HeldNumber> changed;
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    if (!is_alike(a.nodes[i], b.nodes[i])) return std::nullopt;
    const auto of_node = changed_in(a, b, a.nodes[i], b.nodes[i]);
    if (!of_node) return std::nullopt;
    changed.insert(changed.end(), of_node->begin(), of_node->end());
  }
  std::ranges::sort(changed, {}, &HeldNumber::offset);
  if (!same_but_for(a.key, b.key, changed)) return std::nullopt;
  return changed;
}

bool same_but_for(const std::string& a, const std::string& b,
                  const std::vector<HeldNumber>& numbers) {
  if (a.size() != b.size()) return false;
  const std::string_view in_a = a, in_b = b;
  size_t start = 0;
  for (const auto& number : numbers) {
    if (in_a.substr(start, number.offset - start) != in_b.substr(start, number.offset - start)) {
      return false;
    }
    start = number.offset + kBytes;
  }
  return in_a.substr(start) == in_b.substr(start);
}

ops::Number number_in(const std::string& key, const HeldNumber& number) {
  return number_at(key, number.offset, number.integer);
}

}  // namespace antegrad::backward
