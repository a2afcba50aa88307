#pragma once

/// \file
/// What this process has of compiled code: what it loaded, and what bundles brought.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "graph/hash.h"
#include "kernels/code.h"
#include "kernels/compiled_kernels.h"
#include "kernels/compiler.h"

namespace antegrad::kernels {

/// The first words of records of entries in the folder of compiled files.
inline constexpr std::string_view kRecord = "antegrad kernels 2\n";

/// Everything that code follows from.
struct MadeFrom {
  std::string text;  ///< of the source
  std::string compiler;
  std::string arguments;
  std::string needed = {};    ///< libraries that it calls
  std::string made_for = {};  ///< the machine, as far as it matters
};

/// In text: the record of its entry, without the hash of the contents.
std::string record_of(const MadeFrom& from);

/// Code of this process. The lock is held while it is made, so that others wait for it.
struct Slot {
  std::mutex lock;
  std::weak_ptr<const Code> held;
  std::string code;  ///< its name in bundles
};

/// `key`: of the record. Outlives all threads.
std::shared_ptr<Slot> slot_of(const Hash128& key, const std::string& code);

/// Code of a bundle.
struct Bundled {
  const std::string* bytes = nullptr;  ///< null if no bundle has it; stays, as bundles do
  bool keeps = false;                  ///< whether it goes to the folder
};

/// `compiler`: that of the bundle; null: whichever it is.
Bundled bundled_code(const std::string& code, const Compiler* compiler);

/// From now on build() takes this code where it is asked for what its compiler would make, on
/// whichever machine that was: whether it is right here, who calls build() has to know. With
/// `keeps`, what is taken goes to the folder, as if it had been compiled.
void use_compiled(CompiledKernels compiled, bool keeps = false);
/// The compiler of the first of these; nothing if there are none.
std::optional<Compiler> compiler_of_compiled();
/// The code that this process holds, as in a bundle; with `only`, of these alone.
std::map<std::string, std::string> loaded_libraries(const Libraries* only = nullptr);

}  // namespace antegrad::kernels
