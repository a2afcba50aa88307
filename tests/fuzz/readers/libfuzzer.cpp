// A fuzzer of the reader that ANTEGRAD_READER names, by libFuzzer (scripts/fuzz_readers).

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto read = [] {
    const char* name = std::getenv("ANTEGRAD_READER");
    for (const auto& reader : antegrad::testing::readers()) {
      if (name != nullptr && reader.name == name) return reader.read;
    }
    std::fprintf(stderr, "ANTEGRAD_READER names no reader\n");
    std::exit(2);
  }();
  read({reinterpret_cast<const char*>(data), size});
  return 0;
}
