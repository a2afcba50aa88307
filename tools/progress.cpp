#include "progress.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace antegrad::cli {
namespace {

constexpr std::chrono::milliseconds kQuietAtFirst{400};
constexpr int kWidth = 30;

}  // namespace

Progress::Progress(std::string what)
    : what_(std::move(what)), terminal_(::isatty(STDERR_FILENO) == 1), start_(Clock::now()) {}

Progress::~Progress() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

void Progress::show(double done) {
  if (!terminal_ || Clock::now() - start_ < kQuietAtFirst) return;
  const int percent = static_cast<int>(100 * std::clamp(done, 0.0, 1.0));
  if (percent == percent_) return;
  percent_ = percent;
  shown_ = true;
  const int filled = kWidth * percent / 100;
  fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {:3} %", what_, "", filled, "", kWidth - filled,
             percent);
  std::fflush(stderr);
}

}  // namespace antegrad::cli
