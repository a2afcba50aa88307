#pragma once

/// \file
/// Progress of a long loop. On a terminal, one line that is redrawn: a bar, the percentage, a note
/// of the caller, and the time left. Elsewhere (a file, a pipe), a plain line every few seconds.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace antegrad::examples {

class Progress {
 public:
  /// `label` stands before the bar. `total` is the number of steps. `file` is not owned.
  Progress(std::string label, int64_t total, std::FILE* file = stdout);
  /// Ends the line, so that later output starts on a line of its own.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Reports that `done` steps are done. `note` is shown beside the bar: "loss 2.31, 10.2k
  /// tokens/s". Redraws at most a few times per second, and always for the last step.
  void update(int64_t done, const std::string& note = "");

 private:
  using Clock = std::chrono::steady_clock;

  void draw_bar(int64_t done, const std::string& note);
  void print_line(int64_t done, const std::string& note);
  std::string time_left(int64_t done) const;

  std::string label_;
  int64_t total_;
  std::FILE* file_;
  bool terminal_;
  bool utf8_;
  bool line_open_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_drawn_;
};

/// Steps (or tokens) per second over the last few seconds.
class Rate {
 public:
  /// Adds `amount`, done in `seconds`.
  void add(double amount, double seconds);
  double per_second() const { return seconds_ > 0 ? amount_ / seconds_ : 0; }

 private:
  double amount_ = 0, seconds_ = 0;
};

/// "950", "10.2k", "3.4M".
std::string short_number(double value);

}  // namespace antegrad::examples
