#pragma once

/// \file
/// Options by name: as text and JSON, and the defaults that antegrad::compile takes where it is given none.
///
/// The defaults of a process begin with environment variables, ANTEGRAD_MAX_PROGRAMS=4 and the like; docs/options.md lists
/// names, values and variables. A callable keeps the options that it was compiled with.
///
/// All of this throws OptionError for an unknown name, saying which ones are near, and for a value that the option cannot have.
/// All functions are thread-safe.

#include <antegrad/options.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace antegrad {

/// Sets an option from text: ("audit", "off"), ("memory_budget", "512MiB"), ("recomputable_ops", "aten::add,aten::mul"). Where a
/// budget chooses its partition in C++, it does here.
void set_option(Options& options, std::string_view name, std::string_view value);

/// The value as text that set_option() reads back; "none" where nothing is set.
std::string option_text(const Options& options, std::string_view name);

/// An object with all options by name. Throws OptionError for a text that is not UTF-8.
std::string to_json(const Options& options);

/// Options{} with the values in an object, which need not be all. `partition` holds as it is given, beside a budget as well.
Options options_from_json(std::string_view text);

/// The same to and from a file. Throws InputError when it cannot be written or read.
void save_options(const Options& options, const std::string& file);
Options load_options(const std::string& file);

/// What antegrad::compile takes where it is given no options: those of the calling thread's innermost OptionsPatch, or else those
/// of the process. Throws OptionError for a bad value in an environment variable, which it names.
Options default_options();

/// Sets the defaults of the process; in a patch those of the patch, which end with it.
void set_default_options(Options options);

/// Other defaults for the calling thread while it lives. May be nested; must end on the thread on which it began, the inner
/// one first.
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
