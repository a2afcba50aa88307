#pragma once

/// \file
/// Options by name, as text and as JSON, and the defaults of antegrad::compile.
///
/// The defaults of a process begin with environment variables such as ANTEGRAD_MAX_PROGRAMS=4.
/// docs/options.md lists names, values and variables. A callable keeps the options that it was
/// compiled with.
///
/// All functions throw OptionError for an unknown name, with the nearest names, and for a value
/// that the option cannot have. All functions are thread-safe.

#include <antegrad/options.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace antegrad {

/// Sets an option from text: ("audit", "off"), ("memory_budget", "512MiB"), ("recomputable_ops",
/// "aten::add,aten::mul"). A budget also sets its partition, as the setter in C++ does.
void set_option(Options& options, std::string_view name, std::string_view value);

/// The value as text that set_option() accepts; "none" for an unset option.
std::string option_text(const Options& options, std::string_view name);

/// A JSON object with all options by name. Throws OptionError for a text that is not UTF-8.
std::string to_json(const Options& options);

/// Options{} with the values of a JSON object, which may have only some options. A given
/// `partition` is kept, even beside a budget.
Options options_from_json(std::string_view text);

/// The same, to and from a file. Throws InputError if it cannot be written or read.
void save_options(const Options& options, const std::string& file);
Options load_options(const std::string& file);

/// The options of antegrad::compile if it is given none: those of the calling thread's innermost
/// OptionsPatch, or else those of the process. Throws OptionError for a bad value in an
/// environment variable, which it names.
Options default_options();

/// Sets the defaults of the process. Inside a patch it sets those of the patch, which end with it.
void set_default_options(Options options);

/// Other defaults for the calling thread during its lifetime. May be nested. Must be destroyed on
/// the thread that made it, the inner one first.
class [[nodiscard]] OptionsPatch {
 public:
  explicit OptionsPatch(Options options);
  /// OptionsPatch patch{"partition=min_cut", "audit=off"}: the defaults with these changes.
  OptionsPatch(std::initializer_list<std::string_view> settings);
  ~OptionsPatch();
  OptionsPatch(const OptionsPatch&) = delete;
  OptionsPatch& operator=(const OptionsPatch&) = delete;

 private:
  std::optional<Options> outer_;
};

}  // namespace antegrad
