#include "common/harness.h"

#include <ATen/Parallel.h>
#include <antegrad/error.h>
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/progress.h"

namespace antegrad::bench {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const auto begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "unknown";
}

}  // namespace

Bench::Bench(std::string name, int argc, char** argv, const std::function<void(CLI::App&)>& more)
    : name_(std::move(name)), cpu_(cpu_model()) {
  CLI::App app("Benchmark: " + name_, "bench_" + name_);
  app.option_defaults()->always_capture_default();
  std::string out;
  threads_ = static_cast<int>(std::thread::hardware_concurrency());
  app.add_option("--out", out, "file for the results, one JSON object a line");
  app.add_option("--threads", threads_, "threads of libtorch")->check(CLI::PositiveNumber);
  app.add_option("--case", case_, "measure one case only, in benches that take their cases apart");
  app.add_flag("--quick", quick_, "fewer repetitions");
  if (more) more(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  at::set_num_threads(threads_);
  if (out.empty()) return;
  file_.open(out, std::ios::trunc);
  if (!file_) {
    throw InputError(ErrorText{"a file to write to", "'" + out + "', which cannot be opened",
                               "give another one with --out"});
  }
}

void Bench::add(const Result& result) {
  nlohmann::ordered_json row = {{"bench", name_},
                                {"case", result.case_name},
                                {"metric", result.metric},
                                {"value", result.value},
                                {"unit", result.unit}};
  if (result.peer) {
    row["peer"] = result.peer->name;
    row["peer_value"] = result.peer->value;
    if (result.peer->value != 0) row["ratio"] = result.value / result.peer->value;
  }
  if (result.limit) row["limit"] = *result.limit;
  row["cpu"] = cpu_;
  row["threads"] = threads_;

  std::string line =
      fmt::format("{}/{}/{} = {:.4g}", name_, result.case_name, result.metric, result.value);
  if (!result.unit.empty()) line += " " + result.unit;
  if (result.peer) line += fmt::format("  ({}: {:.4g})", result.peer->name, result.peer->value);
  if (result.limit) {
    line += fmt::format("  [limit {:g}{}]", *result.limit,
                        result.value <= *result.limit ? "" : ": MISSED");
  }
  fmt::print("{}\n", line);
  std::fflush(stdout);
  if (file_.is_open()) file_ << row.dump() << std::endl;
}

int64_t heap_bytes() {
  const auto info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

void note(const std::string& text) { fmt::print(stderr, "{}\n", text); }

int run_bench(const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    note(error.what());
    return 1;
  }
}

int run_bench(const std::string& name, int argc, char** argv, void (*run)(Bench& bench)) {
  return run_bench([&] {
    Bench bench(name, argc, argv);
    run(bench);
  });
}

double time_ms(const std::function<void()>& closure) {
  const examples::Stopwatch watch;
  closure();
  return watch.milliseconds();
}

Pair time_pairs(const std::string& label, int rounds, const std::function<void()>& first,
                const std::function<void()>& second) {
  first();
  second();
  return pairs_of(
      label, rounds, [&] { return time_ms(first); }, [&] { return time_ms(second); });
}

Pair pairs_of(const std::string& label, int rounds, const std::function<double()>& first,
              const std::function<double()>& second) {
  constexpr double kMaximumMs = 60e3;
  constexpr int kFewestRounds = 3;
  const examples::Stopwatch total;
  std::vector<double> firsts, seconds, ratios, differences;
  examples::Progress progress(label, rounds, stderr);
  for (int i = 0; i < rounds; ++i) {
    if (i >= kFewestRounds && total.milliseconds() > kMaximumMs) {
      note(fmt::format("{}: only {} of {} rounds: the machine is slow or busy", label, i, rounds));
      break;
    }
    double a = 0, b = 0;
    if (i % 2 == 0) {
      a = first();
      b = second();
    } else {
      b = second();
      a = first();
    }
    firsts.push_back(a);
    seconds.push_back(b);
    ratios.push_back(a / b);
    differences.push_back(a - b);
    progress.update(i + 1);
  }
  using examples::median;
  return {median(firsts), median(seconds), median(ratios), median(differences)};
}

}  // namespace antegrad::bench
