#pragma once

/// \file
/// Shared parts of all benches: command line, results, and timing of two closures against each
/// other.
///
/// A result is one line with a JSON object: bench, case, metric, value, unit, cpu and threads;
/// where they apply also peer (what the value is compared with), peer_value, ratio (value /
/// peer_value) and limit (an upper limit of the value). Results go to the file of --out and to
/// stdout; progress and remarks go to stderr.

#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/measure.h"

namespace CLI {
class App;
}

namespace antegrad::bench {

struct Peer {
  std::string name;
  double value = 0;
};

struct Result {
  std::string case_name;
  std::string metric;
  double value = 0;
  std::string unit;
  std::optional<Peer> peer;
  std::optional<double> limit;
};

/// One benchmark program.
class Bench {
 public:
  /// Parses --out, --threads, --case and --quick, and what `more` adds. Prints an error and exits
  /// on an invalid command line.
  Bench(std::string name, int argc, char** argv,
        const std::function<void(CLI::App&)>& more = nullptr);

  void add(const Result& result);
  /// Fewer repetitions, to try out a bench.
  bool quick() const { return quick_; }
  /// Whether a case is to be measured: all are, or the one of --case.
  bool wants(const std::string& case_name) const { return case_.empty() || case_ == case_name; }
  int rounds(int full) const { return quick_ ? (full + 4) / 5 : full; }

 private:
  std::string name_;
  std::string cpu_;
  std::string case_;
  bool quick_ = false;
  int threads_ = 0;
  std::ofstream file_;
};

/// The bytes that this process holds on the heap.
int64_t heap_bytes();

/// Prints a remark to stderr.
void note(const std::string& text);

/// Runs `body`, prints any exception to stderr, and returns the exit status for main().
int run_bench(const std::function<void()>& body);
/// The same for a program that is one bench.
int run_bench(const std::string& name, int argc, char** argv, void (*run)(Bench& bench));

/// Medians of two closures that run in turns, so that disturbances on the machine affect both. The
/// order within a pair alternates.
struct Pair {
  double first_ms = 0;
  double second_ms = 0;
  double ratio = 0;          ///< median over pairs of first / second
  double difference_ms = 0;  ///< median over pairs of first - second
};

/// Milliseconds that a closure takes.
double time_ms(const std::function<void()>& closure);

/// Runs `rounds` pairs of closures that return what they measured, in milliseconds. Stops after a
/// minute if at least three pairs are done. `label` appears with the progress.
Pair pairs_of(const std::string& label, int rounds, const std::function<double()>& first,
              const std::function<double()>& second);

/// The same for closures that are timed, each after one run.
Pair time_pairs(const std::string& label, int rounds, const std::function<void()>& first,
                const std::function<void()>& second);

/// Microseconds per call: the median over `samples` of `calls` calls each, after one sample to warm
/// up.
template <class Call>
double time_us(int samples, int calls, const Call& call);

template <class Call>
double time_us(int samples, int calls, const Call& call) {
  std::vector<double> values;
  for (int i = 0; i <= samples; ++i) {
    const examples::Stopwatch watch;
    for (int k = 0; k < calls; ++k) call();
    if (i > 0) values.push_back(watch.milliseconds() * 1e3 / calls);
  }
  return examples::median(std::move(values));
}

}  // namespace antegrad::bench
