#pragma once

/// \file
/// What antegrad logs, by name, with the syntax of PyTorch's TORCH_LOGS. See docs/debugging.md.

#include <string>
#include <string_view>

namespace antegrad {

/// Sets what the process logs: names, separated by commas. "recompiles" logs what is of interest,
/// "+recompiles" every detail, "-recompiles" errors only; "all" stands for every name. Names that
/// are not given log warnings and errors. Later entries override earlier ones. At start the
/// environment variable ANTEGRAD_LOGS decides. Throws OptionError for an unknown name. Thread-safe.
void set_logs(std::string_view settings);

/// The names, each with what it logs, as text for people; ANTEGRAD_LOGS=help prints it.
std::string logs_help();

}  // namespace antegrad
