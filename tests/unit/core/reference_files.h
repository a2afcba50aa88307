#pragma once

/// \file
/// The joint graphs of AOTAutograd in tests/data/reference, written by tests/tools/fx_to_agraph.py,
/// with the values that its partitioners save (docs/graph-format.md).

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace antegrad::testing {

inline const std::string kReferenceFolder = "reference";

/// Names relative to tests/data, without ".agraph".
inline std::vector<std::string> graph_files() {
  const std::filesystem::path data(ANTEGRAD_TEST_DATA);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data / kReferenceFolder)) {
    if (entry.path().extension() != ".agraph") continue;
    files.push_back(std::filesystem::relative(entry.path(), data).replace_extension().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The text of a file in tests/data.
inline std::string reference_text(const std::string& file) {
  std::ifstream stream(std::string(ANTEGRAD_TEST_DATA) + "/" + file);
  EXPECT_TRUE(stream) << file;
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// "reference/exported/unet" as the name of a test: "exported_unet".
inline std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(kReferenceFolder.size() + 1);
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

}  // namespace antegrad::testing
