// Compiled without debug information: see tests/CMakeLists.txt.

namespace antegrad::testing {
namespace {

// Not inlined, and listed in the symbol table under this file.
__attribute__((noinline)) int without_line() {
  static volatile int calls = 0;
  calls = calls + 1;
  return calls;
}

}  // namespace

const void* place_without_line() { return reinterpret_cast<const void*>(&without_line); }

}  // namespace antegrad::testing
