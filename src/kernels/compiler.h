#pragma once

/// \file
/// The C compiler of the system: which one serves, with which flags, and one run of it.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/outcome.h"
#include "lower/c_target.h"

namespace antegrad::kernels {

using lower::Capability;

enum class Numerics : uint8_t {
  exact,  ///< the compiler contracts nothing; the source spells fma out
  close,  ///< multiplications and additions may be contracted
};

struct Compiler {
  std::vector<std::string> command;  ///< absolute path; $CC may add arguments
  std::string version;               ///< the first line of `--version`
  friend bool operator==(const Compiler&, const Compiler&) = default;
};

/// The program `named`, by path or found in PATH; if empty the first that answers `--version` of
/// $CC (which may hold arguments), `cc`, `gcc`, `clang`.
Outcome<Compiler> find_compiler(const std::string& named, std::chrono::milliseconds limit);

/// Neither `-march=native` nor `-ffast-math`: the same flags make the same code on each machine,
/// and loading the file does not change how the thread treats denormal numbers.
std::vector<std::string> flags_of(Capability capability, Numerics numerics);

/// What this CPU lacks to run code of a capability. Empty if it can.
std::vector<std::string> missing_features(Capability capability);

/// The files of a compilation, in a folder of its own.
inline constexpr const char* kSourceFile = "kernels.c";
inline constexpr const char* kLibraryFile = "kernels.so";

/// Makes kLibraryFile from kSourceFile in `directory`, a descriptor, with these arguments. Whether
/// the result is a library shows when it is loaded.
std::optional<Failure> compile(const Compiler& compiler, const std::vector<std::string>& arguments,
                               int directory, std::chrono::milliseconds limit);

/// The line that includes a file, if there is one: generated code is whole, so that its hash says
/// everything about it, and compiles fast.
std::optional<std::string> including_line(const std::string& source);

}  // namespace antegrad::kernels
