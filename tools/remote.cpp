#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.h"
#include "graph/byte_text.h"
#include "remote/remote_cache.h"

namespace antegrad::cli {
namespace {

struct Arguments {
  std::string url;
  bool clear = false;
  bool json = false;
};

template <class T>
T value_of(Outcome<T, RemoteFailure> outcome) {
  if (!outcome) throw UsageError("the server: " + outcome.failure().text);
  return std::move(*outcome);
}

void ask(const Arguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const auto redis =
      value_of(Redis::connect(remote_address(arguments.url), RemoteSecrets::of_environment()));
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  const auto entries = value_of(redis->list(kRemotePrefix));
  int64_t bytes = 0;
  std::vector<std::string> keys;
  for (const auto& entry : entries) {
    bytes += entry.bytes;
    keys.push_back(entry.key);
  }
  if (arguments.clear) {
    if (const auto failure = redis->remove(keys)) throw UsageError("the server: " + failure->text);
  }
  if (arguments.json) {
    const nlohmann::json all{{"entries", keys.size()},
                             {"bytes", bytes},
                             {"connect_ms", spent.count()},
                             {"removed", arguments.clear}};
    std::cout << all.dump(2) << "\n";
    return;
  }
  std::cout << fmt::format("{}{} entries, {}; connected in {:.1f} ms\n",
                           arguments.clear ? "removed " : "", keys.size(), bytes_text(bytes),
                           spent.count());
}

}  // namespace

void add_remote_cache(CLI::App& app) {
  CLI::App* command = app.add_subcommand("remote", "What the server of remote_cache has");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("URL", arguments->url,
                   "Its address, redis://[user@]host[:port][/database] or rediss://; the password "
                   "is in ANTEGRAD_REMOTE_CACHE_PASSWORD")
      ->required();
  command->add_flag("--clear", arguments->clear, "Remove the entries of antegrad there");
  command->add_flag("--json", arguments->json, "JSON instead of text");
  command->footer(
      "Examples:\n  antegrad cache remote redis://cache.example:6379\n"
      "  antegrad cache remote rediss://me@cache.example --clear");
  command->callback([arguments] { ask(*arguments); });
}

}  // namespace antegrad::cli
