// What fuzzers of readers once found, and examples of what they read (tests/fuzz/corpus).

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "fuzz/readers/readers.h"

namespace antegrad::testing {
namespace readers_test {

namespace fs = std::filesystem;

TEST(Readers, TakeWhatFuzzersFound) {
  std::set<std::string> folders;
  for (const auto& folder : fs::directory_iterator(ANTEGRAD_TEST_DATA "/../fuzz/corpus")) {
    const auto name = folder.path().filename().string();
    const auto reader = std::ranges::find(readers(), name, &Reader::name);
    ASSERT_NE(reader, readers().end()) << name;
    folders.insert(name);
    for (const auto& file : fs::directory_iterator(folder)) {
      SCOPED_TRACE(file.path().string());
      std::ifstream in(file.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      EXPECT_FALSE(bytes.empty());
      reader->read(bytes);
    }
  }
  EXPECT_EQ(folders.size(), readers().size()) << "a reader has no examples";
}

}  // namespace readers_test
}  // namespace antegrad::testing
