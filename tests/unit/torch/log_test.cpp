#include "log/log.h"

#include <gtest/gtest.h>

namespace antegrad::testing {
namespace log_test {

TEST(Log, WarningsAreOnAndTheTextOfWhatIsOffIsNotBuilt) {
  EXPECT_TRUE(log_enabled(Artifact::warning));
  for (const auto artifact : {Artifact::graph, Artifact::guards, Artifact::shape}) {
    bool built = false;
    log(artifact, [&] {
      built = true;
      return std::string();
    });
    EXPECT_EQ(built, log_enabled(artifact));
  }
}

}  // namespace log_test
}  // namespace antegrad::testing
