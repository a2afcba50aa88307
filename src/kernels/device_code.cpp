#include "kernels/device_code.h"

#include <atomic>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "files/private_folder.h"
#include "graph/hash.h"
#include "kernels/in_parallel.h"

namespace antegrad::kernels {
namespace {

class DeviceBuilder {
 public:
  DeviceBuilder(const DeviceCompiler& compile, const Settings& settings)
      : compile_(compile),
        settings_(settings),
        folder_(PrivateFolder::open(folder_of(settings), kEntrySuffix)) {}

  Outcome<DeviceBuilt> build(const DeviceSource& source) {
    const MadeFrom from{.text = source.text,
                        .compiler = source.compiler,
                        .arguments = fmt::format("{}", fmt::join(source.arguments, " ")),
                        .made_for = source.made_for};
    const std::string record = record_of(from);
    const Hash128 key = hash_of_bytes(record);
    const std::string code = to_string(
        hash_of_bytes(fmt::format("{}\n{}\n{}", from.text, from.compiler, from.arguments)));
    const auto slot = slot_of(key, code);
    const std::lock_guard guard(slot->lock);
    if (auto held = std::static_pointer_cast<const DeviceCode>(slot->held.lock())) {
      return DeviceBuilt{std::move(held), CodeFrom::process};
    }
    auto built = make(source, code, to_string(key), record);
    if (built) slot->held = built->code;
    return built;
  }

  void trim() const {
    if (added_) folder_->trim(settings_.folder_bytes);
  }

 private:
  Outcome<DeviceBuilt> make(const DeviceSource& source, const std::string& code,
                            const std::string& name, const std::string& record) {
    if (const auto bundled = bundled_code(code, nullptr); bundled.bytes != nullptr) {
      DeviceBuilt built{std::make_shared<DeviceCode>(*bundled.bytes), CodeFrom::bundle};
      if (bundled.keeps) built.damage = keep(*bundled.bytes, name, record);
      return built;
    }
    std::string damage;
    if (folder_) {
      auto entry = folder_->read(name, record);
      if (!entry.bytes.empty()) {
        return DeviceBuilt{std::make_shared<DeviceCode>(std::move(entry.bytes)), CodeFrom::folder};
      }
      damage = std::move(entry.damage);
    }
    auto compiled = compile_(source);
    if (!compiled) return compiled.failure();
    auto not_kept = keep(*compiled, name, record);
    return DeviceBuilt{std::make_shared<DeviceCode>(std::move(*compiled)), CodeFrom::compiler,
                       not_kept.empty() ? std::move(damage) : std::move(not_kept)};
  }

  // Why it could not be kept; empty if it was.
  std::string keep(std::string_view bytes, const std::string& name, const std::string& record) {
    if (!folder_) return folder_.failure().text;
    auto failure = folder_->keep_bytes(bytes, name, record);
    if (failure.empty()) added_ = true;
    return failure;
  }

  const DeviceCompiler& compile_;
  const Settings& settings_;
  const antegrad::Outcome<PrivateFolder, FolderFailure> folder_;
  std::atomic<bool> added_ = false;
};

}  // namespace

std::vector<Outcome<DeviceBuilt>> build_for_devices(std::span<const DeviceSource> sources,
                                                    const DeviceCompiler& compile,
                                                    const Settings& settings) {
  std::vector<Outcome<DeviceBuilt>> results(sources.size(), Failure{Reason::not_loadable, ""});
  if (sources.empty()) return results;
  DeviceBuilder builder(compile, settings);
  in_parallel(sources.size(), settings.parallel,
              [&](size_t i) { results[i] = builder.build(sources[i]); });
  builder.trim();
  return results;
}

}  // namespace antegrad::kernels
