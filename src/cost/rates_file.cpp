#include "cost/rates_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

#include <antegrad/error.h>

namespace antegrad {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kVersion = 1;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// All machines. Throws json::exception and GraphError for a damaged file.
std::map<std::string, Rates> machines_of(const std::string& path) {
  std::ifstream in(path);
  if (!in) return {};
  const json object = json::parse(in);
  if (const int version = object.at("version").get<int>(); version != kVersion) {
    throw GraphError(ErrorText{"version " + std::to_string(kVersion), std::to_string(version), ""});
  }
  return object.at("machines").get<std::map<std::string, Rates>>();
}

}  // namespace

std::string cache_directory(const std::string& named) {
  if (!named.empty()) return named;
  if (const std::string caches = environment("XDG_CACHE_HOME"); !caches.empty()) {
    return caches + "/antegrad";
  }
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/antegrad";
}

RatesFile::RatesFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::error_code ignored;  // the file is then neither read nor written
  fs::create_directories(fs::path(path_).parent_path(), ignored);
  lock_ = ::open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX);
}

RatesFile::~RatesFile() {
  if (lock_ >= 0) ::close(lock_);  // unlocks
}

Rates RatesFile::read(const std::string& machine) {
  damage_.clear();
  try {
    auto machines = machines_of(path_);
    return std::move(machines[machine]);
  } catch (const std::exception& error) {
    damage_ = error.what();
    return {};
  }
}

bool RatesFile::write(const std::string& machine, const Rates& rates) const {
  if (path_.empty()) return false;
  std::map<std::string, Rates> machines;
  try {
    machines = machines_of(path_);
  } catch (const std::exception&) {
    // Damaged: its machines are measured again when they are needed.
  }
  machines[machine] = rates;
  const std::string part = path_ + "." + std::to_string(::getpid());
  {
    std::ofstream out(part);
    out << json{{"version", kVersion}, {"machines", machines}}.dump(1) << '\n';
    if (!out.flush()) {
      ::unlink(part.c_str());
      return false;
    }
  }
  std::error_code failed;
  fs::rename(part, path_, failed);
  if (failed) ::unlink(part.c_str());
  return !failed;
}

}  // namespace antegrad
