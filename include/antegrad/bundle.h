#pragma once

/// \file
/// What a process decided and compiled, in one file that a program can ship (docs/cache.md).

#include <antegrad/error.h>

#include <string>

namespace antegrad {

/// Writes what this process used: its plans, as far as they can be kept (ProgramReport::plan_cache
/// is "hit" or "miss"), and the generated kernels that it holds, with what is known of them: that
/// they have libtorch's bits on this machine, and how fast they are. Call it after a step of each
/// program, while these are alive. Throws InputError if there is neither, or if the file cannot be
/// written. May be called beside programs that run.
void save_bundle(const std::string& file);

/// From now on programs that are compiled take their plans and kernels from this file where it has
/// them. They need no C compiler for these, and no directory for caches; a machine that has another
/// compiler than the file's uses that. On another CPU, or with another build of libtorch, plans are
/// made anew, and a warning says that each kernel is compared with libtorch's again before it runs.
/// Kernels are code that runs in this process: throws InputError for a file that another user than
/// this one or root can write, and for one that is damaged. May be called beside programs that run,
/// which keep what they have.
void load_bundle(const std::string& file);

}  // namespace antegrad
