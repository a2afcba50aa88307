// Benchmark `cache`: the time to the end of the first training step, from the call of compile() on,
// in a fresh process.
//
//   cache/<case>/{cold,warm,bundled,remote}_ms
//     no caches; those of an earlier process; a bundle alone, and a Redis server of this machine
//     alone, without compiler and folder
//   cache/<case>/{cold,warm,bundled,remote}_over_eager_ms
//     what that is more than eager's first step
//
// Peers: eager, in a process of its own; inductor with empty caches (cold), and with those of an
// earlier process (warm, bundled, remote). Cases: gpt12 and resnet50 with exact kernels, and the
// same within a budget of memory, where plans are searched.

#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/child.h"
#include "common/empty_cache.h"
#include "common/gpt12.h"
#include "common/harness.h"
#include "common/measure.h"
#include "common/resnet50.h"
#include "support/redis_server.h"

namespace antegrad::bench {
namespace {

using testing::RedisServer;

constexpr const char* kChild = "--first-step";
constexpr int64_t kImages = 4, kImage = 64;
constexpr double kShare = 0.3;
constexpr const char* kRemote = "ANTEGRAD_REMOTE_CACHE";
constexpr const char* kRemoteKey = "ANTEGRAD_REMOTE_CACHE_KEY";

using Loss = std::function<at::Tensor(at::Tensor, at::Tensor)>;

// A model and a batch.
struct Subject {
  std::shared_ptr<torch::nn::Module> model;
  Loss loss;
  at::Tensor x, y;
};

Subject subject_of(const std::string& name) {
  torch::manual_seed(0);
  if (name == "gpt12") {
    examples::Gpt model(gpt12());
    const auto tokens = random_tokens(gpt12(), kBatch);
    return {model.ptr(), [model](at::Tensor x, at::Tensor y) mutable { return model->loss(x, y); },
            tokens.inputs, tokens.targets};
  }
  ResNet50 model;
  return {model.ptr(), [model](at::Tensor x, at::Tensor y) mutable { return model->loss(x, y); },
          at::randn({kImages, 3, kImage, kImage}),
          at::randint(ResNet50Impl::kClasses, {kImages}, at::kLong)};
}

std::vector<std::string> peer_words_of(const std::string& name) {
  if (name == "gpt12") return peer_words(gpt12(), kBatch);
  return peer_words("resnet50", {kImages, kImage});
}

enum class Way { eager, exact, in_budget };
const std::map<std::string, Way> kWays = {
    {"eager", Way::eager}, {"exact", Way::exact}, {"in_budget", Way::in_budget}};

Options options_of(Way way) {
  auto options = Options().with_lowering(Lowering::exact);
  if (way == Way::in_budget) options.with_memory_share(kShare);
  if (const char* server = std::getenv(kRemote)) options.with_remote_cache(server);
  return options;
}

// One first step, as one line of JSON. `bundle`: to be loaded where it exists, else to be written.
void run_first_step(const std::string& name, Way way, const std::string& bundle, int threads) {
  at::set_num_threads(threads);
  const auto subject = subject_of(name);
  nlohmann::json found;
  if (way == Way::eager) {
    found["first_ms"] = time_ms([&] { subject.loss(subject.x, subject.y).backward(); });
  } else {
    const bool load = !bundle.empty() && std::filesystem::exists(bundle);
    std::optional<Compiled<Loss>> step;
    found["first_ms"] = time_ms([&] {
      if (load) load_bundle(bundle);
      step.emplace(compile(subject.model, subject.loss, options_of(way)));
      (*step)(subject.x, subject.y).backward();
    });
    found["plan_cache"] = step->report().programs.at(0).plan_cache;
    if (!load && !bundle.empty()) save_bundle(bundle);
  }
  fmt::print("{}\n", found.dump());
}

double first_ms(const std::string& name, const std::string& way, const std::string& bundle,
                const std::string& expected) {
  const auto found = run_self({kChild, name, way, bundle, std::to_string(at::get_num_threads())});
  if (!expected.empty() && found.at("plan_cache") != expected) {
    note(fmt::format("{} {}: the plan is a {}, expected a {}", name, way,
                     found.at("plan_cache").get<std::string>(), expected));
  }
  return found.at("first_ms").get<double>();
}

// Environment variables for the processes that start meanwhile.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) {
      const char* before = std::getenv(name.c_str());
      before_[name] = before == nullptr ? std::nullopt : std::optional<std::string>(before);
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

struct Times {
  std::vector<double> eager, cold, warm, bundled, remote;
  std::vector<double> inductor_cold, inductor_warm;
};

// A server that has what a first step sent, if there is one to start.
std::unique_ptr<RedisServer> filled_server(const std::string& name, const std::string& way) {
  if (!RedisServer::exists()) return nullptr;
  auto server = std::make_unique<RedisServer>();
  const EmptyCache cache;
  const Environment remote({{kRemote, server->url()}, {kRemoteKey, "bench"}});
  first_ms(name, way, "", "miss");
  return server;
}

void measure_once(const std::string& name, const std::string& way, Times& times) {
  const auto server = filled_server(name, way);
  const EmptyCache cache;
  const std::string bundle = std::string(std::getenv("XDG_CACHE_HOME")) + "/bundle";
  times.eager.push_back(first_ms(name, "eager", "", ""));
  times.cold.push_back(first_ms(name, way, "", "miss"));
  times.warm.push_back(first_ms(name, way, "", "hit"));
  first_ms(name, way, bundle, "hit");
  const Environment bare({{"XDG_CACHE_HOME", "/proc/none"}, {"PATH", "/none"}, {"CC", ""}});
  times.bundled.push_back(first_ms(name, way, bundle, "hit"));
  if (!server) return;
  const Environment remote({{kRemote, server->url()}, {kRemoteKey, "bench"}});
  times.remote.push_back(first_ms(name, way, "", "hit"));
}

void measure_inductor(const std::string& name, Times& times) {
  const EmptyCache cache;
  const std::string folder = std::string(std::getenv("XDG_CACHE_HOME")) + "/inductor";
  const Environment caches({{"TORCHINDUCTOR_CACHE_DIR", folder}});
  const auto first = run_peer("first_step.py", peer_words_of(name));
  if (!first) return;
  const auto second = run_peer("first_step.py", peer_words_of(name));
  if (!second) return;
  times.inductor_cold.push_back(first->at("first_ms").get<double>());
  times.inductor_warm.push_back(second->at("first_ms").get<double>());
}

void measure(Bench& bench, const std::string& name) {
  std::map<std::string, Times> all;
  const int rounds = bench.rounds(5);
  for (int round = 0; round < rounds; ++round) {
    for (const std::string way : {"exact", "in_budget"}) {
      note(fmt::format("{} {}: first steps in fresh processes, {} of {}", name, way, round + 1,
                       rounds));
      measure_once(name, way, all[way]);
    }
    if (round < 3) measure_inductor(name, all["exact"]);
  }
  const auto& inductor = all["exact"];
  for (const auto& [way, times] : all) {
    const auto case_name = way == "exact" ? name : name + "_" + way;
    const double eager = examples::median(times.eager);
    const auto add = [&](const std::string& metric, const std::vector<double>& found,
                         const std::vector<double>& peer, const std::string& peer_name,
                         std::optional<double> limit) {
      const double value = examples::median(found);
      bench.add({case_name, metric + "_ms", value, "ms", Peer{"eager", eager}, {}});
      if (!peer.empty()) {
        bench.add(
            {case_name, metric + "_ms", value, "ms", Peer{peer_name, examples::median(peer)}, {}});
      }
      bench.add({case_name, metric + "_over_eager_ms", value - eager, "ms", {}, limit});
    };
    add("cold", times.cold, inductor.inductor_cold, "inductor_cold", {});
    // Within a budget the step itself takes longer.
    const auto limit = case_name == "gpt12" ? std::optional<double>(60) : std::nullopt;
    add("warm", times.warm, inductor.inductor_warm, "inductor_warm", limit);
    add("bundled", times.bundled, inductor.inductor_warm, "inductor_warm", {});
    if (!times.remote.empty()) {
      add("remote", times.remote, inductor.inductor_warm, "inductor_warm", {});
    }
  }
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  if (argc == 6 && std::string(argv[1]) == kChild) {
    return run_bench(
        [&] { run_first_step(argv[2], kWays.at(argv[3]), argv[4], std::atoi(argv[5])); });
  }
  return run_bench("cache", argc, argv, [](Bench& bench) {
    for (const std::string name : {"gpt12", "resnet50"}) {
      if (bench.wants(name)) measure(bench, name);
    }
  });
}
