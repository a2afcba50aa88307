#include "kernels/process_code.h"

#include <list>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace antegrad::kernels {
namespace {

/// By the hash of what they were made from. Outlive all threads.
struct Slots {
  std::mutex lock;
  std::map<Hash128, std::shared_ptr<Slot>> by_key;

  static Slots& of_process() {
    static auto& slots = *new Slots;
    return slots;
  }
};

/// Outlive all threads. Bundles are never removed, so what is found in them stays.
struct Bundles {
  struct Taken {
    CompiledKernels kernels;
    bool keeps = false;
  };
  std::mutex lock;
  std::list<Taken> all;

  static Bundles& of_process() {
    static auto& bundles = *new Bundles;
    return bundles;
  }
};

}  // namespace

std::string record_of(const MadeFrom& from) {
  return fmt::format("{}source {}\ncompiler {}\narguments {}\nneeded {}\nfor {}\n", kRecord,
                     to_string(hash_of_bytes(from.text)), from.compiler, from.arguments,
                     from.needed, from.made_for);
}

std::shared_ptr<Slot> slot_of(const Hash128& key, const std::string& code) {
  Slots& slots = Slots::of_process();
  const std::lock_guard guard(slots.lock);
  auto& slot = slots.by_key[key];
  if (!slot) {
    slot = std::make_shared<Slot>();
    slot->code = code;
  }
  return slot;
}

Bundled bundled_code(const std::string& code, const Compiler* compiler) {
  Bundles& bundles = Bundles::of_process();
  const std::lock_guard guard(bundles.lock);
  for (const auto& [bundle, keeps] : bundles.all) {
    if (compiler != nullptr && !(bundle.compiler == *compiler)) continue;
    const auto found = bundle.libraries.find(code);
    if (found != bundle.libraries.end()) return {&found->second, keeps};
  }
  return {};
}

void use_compiled(CompiledKernels compiled, bool keeps) {
  if (compiled.libraries.empty()) return;
  Bundles& bundles = Bundles::of_process();
  const std::lock_guard guard(bundles.lock);
  bundles.all.push_back({std::move(compiled), keeps});
}

std::optional<Compiler> compiler_of_compiled() {
  Bundles& bundles = Bundles::of_process();
  const std::lock_guard guard(bundles.lock);
  return bundles.all.empty() ? std::nullopt : std::optional(bundles.all.front().kernels.compiler);
}

std::map<std::string, std::string> loaded_libraries(const Libraries* only) {
  Slots& slots = Slots::of_process();
  std::vector<std::shared_ptr<Slot>> all;
  {
    const std::lock_guard guard(slots.lock);
    for (const auto& [key, slot] : slots.by_key) all.push_back(slot);
  }
  std::map<std::string, std::string> libraries;
  for (const auto& slot : all) {
    const std::lock_guard guard(slot->lock);
    const auto code = slot->held.lock();
    if (!code || (only != nullptr && !only->contains(code))) continue;
    libraries[slot->code] = code->bytes();
  }
  return libraries;
}

}  // namespace antegrad::kernels
