#pragma once

/// \file
/// A loaded shared library of generated kernels.
///
/// It is loaded from a private copy in memory of bytes that were checked, so that nothing that
/// happens to files changes code that runs.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/file.h"
#include "kernels/code.h"
#include "kernels/outcome.h"

namespace antegrad::kernels {

/// A generated kernel. `buffers` are base addresses, `numbers` its integer arguments; the call does
/// the part [begin, end) of the outermost parallel space, as number `thread` of the team.
using Function = void (*)(char* const* buffers, const int64_t* numbers, int64_t begin, int64_t end,
                          int64_t thread);

/// Immutable, so any thread may use it. Loaded as long as somebody holds it; who keeps a Function
/// keeps the library too.
class Library final : public Code {
 public:
  /// All symbols are resolved now, and the library's own are visible to nobody else. `needed` are
  /// sonames of libraries of this process whose symbols it uses: it was linked with stubs of them
  /// (stub.h). They have to be loaded, since another copy of libtorch must not come in. `file` is a
  /// file with the same bytes, if there is one, for profilers, which find names by files.
  static Outcome<std::shared_ptr<const Library>> load(std::string_view bytes,
                                                      const std::vector<std::string>& needed,
                                                      const File& file);
  ~Library() override;

  /// Null if there is none of this name.
  Function function(const std::string& name) const;

  std::string bytes() const override;

 private:
  Library(void* handle, File image) : handle_(handle), image_(std::move(image)) {}
  void* handle_;
  File image_;  // debuggers open it by its name in /proc
};

}  // namespace antegrad::kernels
