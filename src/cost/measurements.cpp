#include "cost/measurements.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

namespace antegrad {
namespace {

using nlohmann::json;

constexpr size_t kMostNodes = 100'000'000;

template <class Number, class IsKnown>
void write_by_node(json& object, const char* field, const std::vector<Number>& numbers,
                   IsKnown is_known) {
  for (size_t id = 0; id < numbers.size(); ++id) {
    if (is_known(numbers[id])) object[field].push_back({id, numbers[id]});
  }
}

/// Pairs of a node id and a number; all other nodes have the value `missing`.
template <class Number>
void read_by_node(const json& object, const char* field, std::vector<Number>& numbers,
                  Number missing) {
  numbers.clear();
  for (const json& pair : object.value(field, json::array())) {
    const auto id = pair.at(0).get<size_t>();
    check_node_id(id, field);
    numbers.resize(std::max(numbers.size(), id + 1), missing);
    numbers[id] = pair.at(1).get<Number>();
  }
}

}  // namespace

void check_node_id(size_t id, std::string_view field) {
  if (id < kMostNodes) return;
  throw GraphError(ErrorText{fmt::format("node ids in \"{}\"", field), std::to_string(id), ""});
}

void to_json(json& object, const Measurements& measured) {
  object = json::object();
  write_by_node(object, "scratch", measured.scratch, [](int64_t bytes) { return bytes != 0; });
  write_by_node(object, "seconds", measured.seconds, [](double time) { return time >= 0; });
}

void from_json(const json& object, Measurements& measured) {
  read_by_node(object, "scratch", measured.scratch, int64_t{0});
  read_by_node(object, "seconds", measured.seconds, -1.0);
}

}  // namespace antegrad
