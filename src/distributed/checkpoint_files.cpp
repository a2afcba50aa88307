#include "distributed/checkpoint_files.h"

#include <antegrad/error.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "files/file.h"
#include "graph/hash.h"

namespace antegrad::distributed {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr const char* kManifest = "manifest.json";
constexpr const char* kCurrent = "current";

[[noreturn]] void fail(const std::string& expected, const std::string& path,
                       const std::string& why) {
  throw InputError(ErrorText{expected, fmt::format("{}: {}", path, why),
                             "look at the folder's owner, mode and free space, or use another"});
}

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  throw InputError(ErrorText{"a whole checkpoint", fmt::format("{}: {}", path, why),
                             "restore the folder from a copy, or begin anew in another one"});
}

void flush_folder(const std::string& path) {
  const File folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.number());
}

Json json_of(const Checkpoint::Unit& unit) {
  auto members = Json::array(), parts = Json::array();
  for (const auto& member : unit.members) {
    members.push_back({{"name", member.name}, {"sizes", member.sizes}, {"offset", member.offset}});
  }
  for (const auto& part : unit.parts) {
    parts.push_back({{"name", part.name}, {"dtype", name(part.dtype)}});
  }
  return {{"members", members},
          {"elements_here", unit.elements_here},
          {"parts", parts},
          {"numbers", unit.numbers}};
}

DType dtype_in(const Json& json) {
  const auto dtype = dtype_from_name(json.at("dtype").get<std::string>());
  if (!dtype) throw std::runtime_error("an unknown dtype");
  return *dtype;
}

Checkpoint::Unit unit_in(const Json& json) {
  Checkpoint::Unit unit{.elements_here = json.at("elements_here").get<int64_t>()};
  for (const auto& member : json.at("members")) {
    unit.members.push_back({member.at("name"), member.at("sizes"), member.at("offset")});
  }
  for (const auto& part : json.at("parts")) {
    unit.parts.push_back({part.at("name").get<std::string>(), dtype_in(part)});
  }
  unit.numbers = json.at("numbers").get<std::map<std::string, int64_t>>();
  return unit;
}

Checkpoint checkpoint_in(const Json& json) {
  if (json.at("version") != kVersion) throw std::runtime_error("another version of the format");
  Checkpoint checkpoint{.step = json.at("step").get<int64_t>(),
                        .optimizer = json.at("optimizer").get<std::string>()};
  checkpoint.ranks = json.at("ranks").get<int32_t>();
  for (const auto& unit : json.at("units")) checkpoint.units.push_back(unit_in(unit));
  for (const auto& buffer : json.at("buffers")) {
    checkpoint.buffers.push_back(
        {buffer.at("name").get<std::string>(), dtype_in(buffer), buffer.at("sizes")});
  }
  for (const auto& [file, contents] : json.at("files").items()) {
    checkpoint.files[file] = {contents.at("bytes").get<int64_t>(),
                              contents.at("hash").get<std::string>()};
  }
  for (const auto& names : json.at("other_names")) {
    checkpoint.other_names.emplace_back(names.at(0), names.at(1));
  }
  return checkpoint;
}

std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) damaged(path, "it cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

std::string rank_file(int32_t rank) { return fmt::format("rank-{}.bin", rank); }

Checkpoint::Contents contents_of(std::string_view bytes) {
  return {static_cast<int64_t>(bytes.size()), to_string(hash_of_bytes(bytes))};
}

std::string to_json(const Checkpoint& checkpoint) {
  auto units = Json::array(), buffers = Json::array();
  for (const auto& unit : checkpoint.units) units.push_back(json_of(unit));
  for (const auto& buffer : checkpoint.buffers) {
    buffers.push_back(
        {{"name", buffer.name}, {"dtype", name(buffer.dtype)}, {"sizes", buffer.sizes}});
  }
  auto files = Json::object();
  for (const auto& [file, contents] : checkpoint.files) {
    files[file] = {{"bytes", contents.bytes}, {"hash", contents.hash}};
  }
  return Json{{"version", kVersion},
              {"step", checkpoint.step},
              {"ranks", checkpoint.ranks},
              {"optimizer", checkpoint.optimizer},
              {"units", units},
              {"buffers", buffers},
              {"other_names", checkpoint.other_names},
              {"files", files}}
      .dump(1);
}

std::string current_folder(const std::string& folder) {
  std::ifstream in(fs::path(folder) / kCurrent);
  std::string name;
  if (!std::getline(in, name) || name.empty()) return {};
  return (fs::path(folder) / fs::path(name).filename()).string();
}

std::string make_folder(const std::string& folder, int64_t step) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("a folder for checkpoints", folder, error.message());
  for (int32_t attempt = 0;; ++attempt) {
    auto name = fmt::format("step-{}", step);
    if (attempt > 0) name += fmt::format(".{}", attempt);
    if (fs::create_directory(fs::path(folder) / name, error)) return name;
    if (error) fail("a folder in which one can be made", folder, error.message());
  }
}

void write_file(const std::string& path, std::string_view bytes) {
  constexpr mode_t kMode = 0644;
  File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  int error = file ? write_all(file, bytes) : errno;
  if (error == 0 && ::fsync(file.number()) != 0) error = errno;
  if (error != 0) fail("a file that can be written", path, error_text(error));
}

// File by file: libtorch 2.11 exports a remove_all() that replaces the standard library's and
// crashes.
void remove_folder(const std::string& path) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    fs::remove(entry.path(), ignored);
  }
  fs::remove(path, ignored);
}

void make_current(const std::string& folder, const std::string& name) {
  flush_folder((fs::path(folder) / name).string());
  const auto made = (fs::path(folder) / (std::string(kCurrent) + ".new")).string();
  write_file(made, name + "\n");
  std::error_code error;
  fs::rename(made, fs::path(folder) / kCurrent, error);
  if (error) fail("a file that can be renamed", made, error.message());
  flush_folder(folder);
  // The one before, and what processes left that were killed.
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto other = entry.path().filename().string();
    if (other.starts_with("step-") && other != name) remove_folder(entry.path().string());
  }
}

Checkpoint read_checkpoint(const std::string& current) {
  const auto path = (fs::path(current) / kManifest).string();
  try {
    return checkpoint_in(Json::parse(read_whole(path)));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    damaged(path, error.what());
  }
}

std::string read_file(const std::string& current, const Checkpoint& checkpoint,
                      const std::string& name) {
  const auto path = (fs::path(current) / name).string();
  const auto known = checkpoint.files.find(name);
  if (known == checkpoint.files.end()) damaged(path, "the manifest does not have it");
  auto bytes = read_whole(path);
  if (contents_of(bytes) != known->second) damaged(path, "its contents are not those written");
  return bytes;
}

}  // namespace antegrad::distributed
