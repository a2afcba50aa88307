#pragma once

/// \file
/// Other processes that measure something: this very program again (for what only a cold process
/// can show), or a peer written in Python.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace antegrad::bench {

/// Runs a program and returns the last line of what it prints, which must be a JSON object. Throws
/// Error when the program fails or prints something else. Its stderr is ours.
nlohmann::json run_child(const std::vector<std::string>& command);

/// Runs this program again with these arguments.
nlohmann::json run_self(const std::vector<std::string>& arguments);

/// Runs bench/peers/<script> with the Python of ANTEGRAD_PYTHON. Nothing, with a note on stderr,
/// when there is none or the script fails: a peer is no reason to have no results.
std::optional<nlohmann::json> run_peer(const std::string& script,
                                       const std::vector<std::string>& arguments);

}  // namespace antegrad::bench
