#include "hooks/nameless_file.h"

#include <antegrad/error.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "support/folder.h"

namespace antegrad::testing {
namespace nameless_file_test {

TEST(NamelessFile, ReadsBackWhatWasWrittenAndLeavesNoName) {
  const TemporaryFolder folder;
  std::vector<int> numbers(100'000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const hooks::NamelessFile file(folder.path(), numbers.data(), numbers.size() * sizeof(int));
  EXPECT_TRUE(folder.is_empty());
  std::vector<int> read(numbers.size());
  file.read(read.data());
  EXPECT_EQ(read, numbers);
}

TEST(NamelessFile, AFolderThatIsNotThereIsATypedError) {
  const char byte = 0;
  try {
    const hooks::NamelessFile file("/no/such/folder", &byte, 1);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const HookError& error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/folder"), std::string::npos);
  }
}

}  // namespace nameless_file_test
}  // namespace antegrad::testing
