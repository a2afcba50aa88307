#pragma once

/// \file
/// What every benchmark does alike: its command line, its results, and timing of two things against
/// each other.
///
/// A result is one JSON object a line: bench, case, metric, value, unit, and where there are any
/// peer (whom it was measured against), peer_value, ratio (value / peer_value) and limit (what the
/// value must not exceed); cpu and threads in each. Results go to the file of --out and to stdout;
/// progress and remarks to stderr.

#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/measure.h"

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
  /// Reads --out, --threads and --quick; on a wrong command line prints why and ends the process.
  Bench(std::string name, int argc, char** argv);

  void add(const Result& result);
  /// Fewer repetitions, for trying a benchmark out.
  bool quick() const { return quick_; }
  int rounds(int full) const { return quick_ ? (full + 4) / 5 : full; }

 private:
  std::string name_;
  std::string cpu_;
  bool quick_ = false;
  int threads_ = 0;
  std::ofstream file_;
};

/// A remark for whoever watches, on stderr.
void note(const std::string& text);

/// Runs `body`, and says on stderr why when it throws. The exit status for main().
int run_bench(const std::function<void()>& body);

/// Medians of two closures that were run in turn, so that whatever else happens on the machine
/// meets both. The order within a pair changes from pair to pair.
struct Pair {
  double first_ms = 0;
  double second_ms = 0;
  double ratio = 0;          ///< median over pairs of first / second
  double difference_ms = 0;  ///< median over pairs of first - second
};

/// Each closure runs once before anything is timed. `rounds` pairs, fewer (but three) when they
/// take longer than a minute. `label` appears with the progress.
Pair time_pairs(const std::string& label, int rounds, const std::function<void()>& first,
                const std::function<void()>& second);

/// Microseconds of one call: the median over `samples` of `calls` calls each. One more sample
/// before them warms up.
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
