#pragma once

/// \file
/// Starts programs as the ranks of a group, on this machine.

#include <string>
#include <vector>

namespace antegrad::examples {

/// Whether a launcher started this process: it set the rank.
bool is_launched();

std::string this_program();

/// A port of this machine that is free now. Throws Error if none is found.
int free_port();

/// Runs a program so many times with these arguments, one thread each, and waits. The status of the
/// first that fails, 0 if none does; the others are then ended. Throws Error if a process cannot be
/// started.
int run_ranks(int ranks, const std::string& program, const std::vector<std::string>& arguments);

}  // namespace antegrad::examples
