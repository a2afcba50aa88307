#include "options/defaults.h"

#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <antegrad/config.h>
#include <antegrad/error.h>

#include "options/settings.h"

namespace antegrad {
namespace {

struct Defaults {
  std::mutex mutex;
  std::optional<Options> options;  ///< none until the first access
};

Defaults& of_process() {
  static auto* defaults = new Defaults();  // threads may outlive static objects
  return *defaults;
}

thread_local std::optional<Options> of_thread;

std::vector<Setting> settings_from(const Environment& environment) {
  std::vector<Setting> settings;
  for (const OptionRow& row : option_rows()) {
    const std::string variable = environment_variable(row);
    if (variable.empty()) continue;
    const char* text = environment(variable.c_str());
    if (text == nullptr) continue;
    if (!admitted(row.member.domain, std::string(text))) {
      try {
        refuse_value(row, std::string("\"") + text + '"');
      } catch (OptionError& error) {
        error.add_context("in the environment variable " + variable);
        throw;
      }
    }
    settings.emplace_back(row.name, text);
  }
  return settings;
}

}  // namespace

Options options_from(const Environment& environment) {
  Options options;
  apply_settings(settings_from(environment), options);
  return options;
}

const Options& environment_options() {
  static const auto* options =
      new Options(options_from([](const char* variable) { return std::getenv(variable); }));
  return *options;
}

Options default_options() {
  if (of_thread) return *of_thread;
  Defaults& defaults = of_process();
  const std::lock_guard lock(defaults.mutex);
  if (!defaults.options) defaults.options = environment_options();
  return *defaults.options;
}

void set_default_options(Options options) {
  update_default_options([&](Options& current) { current = std::move(options); });
}

void update_default_options(const std::function<void(Options& options)>& change) {
  const auto update = [&](std::optional<Options>& current) {
    Options changed = *current;
    change(changed);
    current = std::move(changed);
  };
  if (of_thread) return update(of_thread);
  Defaults& defaults = of_process();
  const std::lock_guard lock(defaults.mutex);
  if (!defaults.options) defaults.options = environment_options();
  update(defaults.options);
}

OptionsPatch::OptionsPatch(Options options)
    : outer_(std::exchange(of_thread, std::move(options))) {}

OptionsPatch::OptionsPatch(std::initializer_list<std::string_view> settings) : outer_(of_thread) {
  std::vector<Setting> changes;
  for (const std::string_view setting : settings) {
    const auto [name, value] = name_and_value(setting);
    changes.emplace_back(name, std::string(value));
  }
  Options options = default_options();
  apply_settings(changes, options);
  of_thread = std::move(options);
}

OptionsPatch::~OptionsPatch() { of_thread = std::move(outer_); }

}  // namespace antegrad
