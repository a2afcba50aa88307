#include "compile/plan_key.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string_view>
#include <vector>

#include "cache/build_id.h"
#include "cache/plan_cache.h"
#include "compile/kernel_sources.h"
#include "explain/record.h"
#include "graph/pack.h"
#include "graph/text.h"
#include "guards/ambient.h"
#include "options/settings.h"
#include "torch_compat/convert.h"
#include "torch_compat/device_model.h"

namespace antegrad::compiler {
namespace {

// The devices of a graph, with what decides how long kernels take there and how much they need.
std::set<std::string> device_models(const Graph& joint) {
  std::set<std::string> models;
  std::set<std::string> seen;
  for (const auto& value : joint.values) {
    if (value.kind != ValueKind::tensor || value.meta.device.kind == DeviceKind::meta) continue;
    const auto device = torch_compat::to_c10_device(value.meta.device);
    if (!seen.insert(device.str()).second) continue;
    models.insert(fmt::format("{}: {}", device.str(), torch_compat::device_model(device)));
  }
  return models;
}

// What the hash covers as well, for those who read the key.
std::vector<std::string> arguments_of(const Graph& joint) {
  std::vector<std::string> arguments;
  for (const auto& input : joint.inputs) {
    if (input.source.kind != Source::Kind::argument || !joint.is_tensor(input.value)) continue;
    arguments.push_back(value_text(joint.value(input.value)));
  }
  return arguments;
}

const std::string& build_id_of_libtorch() {
  static const auto id = build_id_of(reinterpret_cast<const void*>(&at::get_num_threads));
  return id;
}

}  // namespace

std::vector<std::string> settings_in_key(const Options& options) {
  std::vector<std::string_view> names;
  for (const auto& row : option_rows()) {
    if (row.in_key) names.push_back(row.name);
  }
  return settings(options, names);
}

std::string hash_without_name(Graph joint) {
  joint.name.clear();
  return to_string(PackedGraph(joint).hash());
}

std::string key_of_plan(const Graph& joint, const Options& options, const CacheNotes& notes) {
  return fmt::format(
      "{}"
      "antegrad {}, build {}\n"
      "graph {}\n"
      "arguments {}\n"
      "machine {}, build {}\n"
      "devices {}\n"
      "switches {}\n"
      "options {}\n"
      "code {}\n",
      kPlanRecord, library_version(), own_build_id(), hash_without_name(joint),
      fmt::join(arguments_of(joint), ", "), this_machine(), build_id_of_libtorch(),
      fmt::join(device_models(joint), "; "), guards::Ambient::now().text(),
      fmt::join(settings_in_key(options), " "), fmt::join(notes.hashes, "; "));
}

}  // namespace antegrad::compiler
