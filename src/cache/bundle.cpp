#include "cache/bundle.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "files/file.h"
#include "files/ownership.h"
#include "graph/hash.h"
#include "graph/read_json.h"

namespace antegrad {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "antegrad bundle 1\n";
constexpr std::string_view kSum = "\nsum ";
constexpr off_t kLargest = off_t{1} << 30;

[[noreturn]] void fail(std::string found, std::string remedy) {
  throw InputError(ErrorText{"a bundle", std::move(found), std::move(remedy)});
}

[[noreturn]] void fail_as_damaged(const std::string& what) {
  fail("one that is damaged: " + what, "write it anew with save_bundle()");
}

std::string sum_of(std::string_view bytes) {
  return fmt::format("{}{}\n", kSum, to_string(hash_of_bytes(bytes)));
}

/// What is in front of the end, which is the sum of it.
std::string_view without_sum(std::string_view bytes) {
  const size_t length = sum_of("").size();
  if (bytes.size() < length) fail_as_damaged("it is cut off");
  const std::string_view summed = bytes.substr(0, bytes.size() - length);
  if (sum_of(summed) != bytes.substr(summed.size())) fail_as_damaged("its sum is another one");
  return summed;
}

Bundle bundle_of(const json& head, std::string_view libraries) {
  Bundle bundle{.kernels = {.compiler = {.command = head.at("compiler").at("command"),
                                         .version = head.at("compiler").at("version")},
                            .made_for = head.at("made_for"),
                            .libraries = {},
                            .facts = head.at("facts")},
                .plans = {}};
  for (const json& entry : head.at("plans")) {
    bundle.plans.push_back(
        {entry.at("key").get<std::string>(), entry.at("plan").get<std::string>()});
  }
  for (const json& entry : head.at("libraries")) {
    const auto bytes = entry.at("bytes").get<size_t>();
    if (bytes > libraries.size()) fail_as_damaged("a library is cut off");
    bundle.kernels.libraries.emplace(entry.at("code").get<std::string>(),
                                     libraries.substr(0, bytes));
    libraries.remove_prefix(bytes);
  }
  if (!libraries.empty()) fail_as_damaged("it is too long");
  return bundle;
}

}  // namespace

std::string bundle_text(const Bundle& bundle) {
  const kernels::CompiledKernels& made = bundle.kernels;
  json head{{"compiler", {{"command", made.compiler.command}, {"version", made.compiler.version}}},
            {"made_for", made.made_for},
            {"facts", made.facts},
            {"plans", json::array()},
            {"libraries", json::array()}};
  for (const KeptPlan& kept : bundle.plans) {
    head["plans"].push_back({{"key", kept.key}, {"plan", kept.plan}});
  }
  for (const auto& [code, library] : made.libraries) {
    head["libraries"].push_back({{"code", code}, {"bytes", library.size()}});
  }
  std::string text(kFormat);
  text += head.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
  for (const auto& [code, library] : made.libraries) text += library;
  return text + sum_of(text);
}

Bundle bundle_of_text(std::string_view bytes) {
  if (!bytes.starts_with(kFormat)) {
    fail("a file that begins in another way",
         "write it with save_bundle() of this version of antegrad");
  }
  std::string_view rest = without_sum(bytes).substr(kFormat.size());
  const size_t end = rest.find('\n');
  if (end == std::string_view::npos) fail_as_damaged("it has no head");
  try {
    return bundle_of(read_json(rest.substr(0, end)), rest.substr(end + 1));
  } catch (const json::exception& error) {
    fail_as_damaged(error.what());
  }
}

void write_bundle(const Bundle& bundle, const std::string& file) {
  const std::string part = fmt::format("{}.{}.part", file, ::getpid());
  const auto failed = [&](int error) {
    ::unlink(part.c_str());
    throw InputError(ErrorText{"a file that can be written", file + ": " + error_text(error),
                               "make its folder first, or choose another one"});
  };
  const File out(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                        S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH));
  if (!out) failed(errno);
  if (const int error = write_all(out, bundle_text(bundle))) failed(error);
  if (::rename(part.c_str(), file.c_str()) != 0) failed(errno);
}

Bundle read_bundle(const std::string& file) {
  const File in(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!in || ::fstat(in.number(), &status) != 0) {
    fail(file + ": " + error_text(errno), "write it with save_bundle()");
  }
  if (!S_ISREG(status.st_mode) || status.st_size > kLargest) {
    fail(file + ", which is no file of at most 1 GiB", "write one with save_bundle()");
  }
  const bool own = status.st_uid == ::geteuid() || status.st_uid == 0;
  if (!own || !only_owner_writes(status)) {
    fail(file + ", " + owner_and_mode(status),
         "its code would run in this process: give it to this user or root, with mode 644");
  }
  std::string bytes;
  if (const int error = read_up_to(in, static_cast<size_t>(status.st_size), bytes)) {
    fail(file + ": " + error_text(error), "");
  }
  return bundle_of_text(bytes);
}

}  // namespace antegrad
