#pragma once

/// \file
/// Why there are no functions. Nothing in this folder throws on the way of training: without
/// compiled kernels a program runs libtorch's, and the caller counts the reasons.

#include <cstdint>
#include <string>
#include <string_view>

#include "files/outcome.h"
#include "files/private_folder.h"

namespace antegrad::kernels {

enum class Reason : uint8_t {
  no_compiler,          ///< none was named, is in $CC or in PATH, or it does not start
  compiler_failed,      ///< it ended with an error, was killed, or made nothing
  timed_out,            ///< the compiler took longer than the limit, and was killed
  source_refused,       ///< the source includes files
  folder_refused,       ///< the folder of compiled files is another user's, or open to others
  folder_not_writable,  ///< no work folder can be made in it
  disk_full,
  not_loadable,  ///< a symbol or function is missing, or the CPU or the system refuses the code
};

/// "no_compiler", …
std::string_view to_string(Reason reason);

struct Failure {
  Reason reason;
  std::string text;  ///< what was found, in words; starts with a lower-case letter, no full stop
};

/// What a failure of the folder of compiled files means here.
Failure failure_of(const FolderFailure& failure);

template <class T>
using Outcome = antegrad::Outcome<T, Failure>;

}  // namespace antegrad::kernels
