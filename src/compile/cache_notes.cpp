#include "compile/cache_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "capture/opaque.h"

namespace antegrad::compiler {
namespace {

void add_once(std::vector<std::string>& texts, std::string text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
}

// The last argument of the operators of ag::opaque; null for other operators.
const std::string* opaque_code(const Node& node) {
  return node.op.traits().names_code ? std::get_if<std::string>(&node.args.back().value) : nullptr;
}

void note(const std::string& what, const std::string& hash, CacheNotes& notes) {
  if (hash.empty()) {
    add_once(notes.bypass, what + " has no cache_hash");
  } else {
    add_once(notes.hashes, what + ": " + hash);
  }
}

}  // namespace

void note_code(const Graph& graph, CacheNotes& notes) {
  for (const auto& node : graph.nodes) {
    if (const auto* name = opaque_code(node)) {
      note(fmt::format("ag::opaque \"{}\"", *name), capture::cache_hash_of_opaque(*name), notes);
    }
  }
  for (const auto& name : graph.opaque_names) {
    add_once(notes.bypass, fmt::format("an operator takes an object of the runtime ({})", name));
  }
}

void note_hooks(const detail::HookPair& hooks, CacheNotes& notes) {
  const auto what = fmt::format("hooks '{}'", hooks.options.name);
  if (!hooks.options.cache_hash.empty() || !hooks.identity) {
    note(what, hooks.options.cache_hash, notes);
    return;
  }
  const auto identity = hooks.identity();
  for (const auto& hash : identity.hashes) add_once(notes.hashes, what + ": " + hash);
  for (const auto& why : identity.bypass) add_once(notes.bypass, what + ": " + why);
}

}  // namespace antegrad::compiler
