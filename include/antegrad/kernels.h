#pragma once

/// \file
/// Compiled kernels (Options::lowering) in a file, for machines without a C compiler
/// (docs/lowering.md#bundles).

#include <antegrad/error.h>

#include <string>

namespace antegrad {

/// Writes the generated kernels that this process holds, with what is known of them: that they have
/// libtorch's bits on this machine, and how fast they are. Call it after a step of each program,
/// while these are alive. Throws InputError if there are no kernels, if the file cannot be written,
/// or if there is no C compiler. May be called beside programs that run.
void save_kernels(const std::string& file);

/// From now on programs that are compiled take their kernels from this file where it has them, and
/// need no C compiler for these; a machine that has another compiler than the file's uses that. On
/// another CPU, or with another build of libtorch, a warning says that each kernel is compared with
/// libtorch's again before it runs. Kernels are code that runs in this process: throws InputError
/// for a file that another user than this one or root can write, and for one that is damaged. May
/// be called beside programs that run, which keep what they have.
void load_kernels(const std::string& file);

}  // namespace antegrad
