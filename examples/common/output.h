#pragma once

/// \file
/// Where an example writes its report and charts.

#include <filesystem>
#include <string>

namespace antegrad::examples {

/// Both throw InputError where nothing can be written.
void make_folder(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace antegrad::examples
