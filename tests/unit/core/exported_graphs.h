#pragma once

/// \file
/// The joint graphs in tests/data/joint, which AOTAutograd exported.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "explain/import_json.h"
#include "gzip/gzip.h"
#include "passes/dce.h"

namespace antegrad::testing {

inline const std::string kExportedFolder = std::string(ANTEGRAD_TEST_DATA) + "/joint/";

inline std::vector<std::string> exported_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kExportedFolder)) {
    if (entry.path().extension() == ".gz") names.push_back(entry.path().stem().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline ImportedGraph exported_graph(const std::string& name) {
  const std::string file = kExportedFolder + name + ".json.gz";
  return import_json(read_maybe_gzipped(file), file);
}

/// The nodes that something reads.
inline Graph exported_joint(const std::string& name) { return dce(exported_graph(name).graph); }

}  // namespace antegrad::testing
