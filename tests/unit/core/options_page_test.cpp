// docs/options.md agrees with the table of options.

#include "options/page.h"

#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace antegrad::testing {
namespace options_page_test {

std::string page() {
  std::stringstream text;
  text << std::ifstream(ANTEGRAD_TEST_DATA "/../../docs/options.md").rdbuf();
  return text.str();
}

/// The text between the lines <!-- NAME:begin --> and <!-- NAME:end -->.
std::string part(const std::string& text, const std::string& name) {
  const std::string begin = "<!-- " + name + ":begin -->\n";
  const size_t from = text.find(begin);
  const size_t to = text.find("<!-- " + name + ":end -->");
  if (from == std::string::npos || to == std::string::npos) return "";
  return text.substr(from + begin.size(), to - from - begin.size());
}

TEST(OptionsPage, HasTheTablesAsTheyAre) {
  EXPECT_EQ(part(page(), "options"), options_page()) << "make docs writes them";
  EXPECT_EQ(part(page(), "reference"), reference_page()) << "make docs writes them";
}

TEST(OptionsPage, HasALineForEveryOption) {
  const std::string tables = options_page();
  for (const OptionRow& row : option_rows()) {
    EXPECT_NE(tables.find("\n| `" + std::string(row.name) + "` |"), std::string::npos) << row.name;
  }
}

}  // namespace options_page_test
}  // namespace antegrad::testing
