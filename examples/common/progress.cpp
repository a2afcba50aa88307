#include "common/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace antegrad::examples {
namespace {

using namespace std::chrono_literals;

constexpr auto kRedraw = 100ms;
constexpr auto kLineEvery = 5s;
constexpr int kMinimumBar = 10, kMaximumBar = 40;

bool locale_is_utf8() {
  for (const auto* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const auto* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale = value;
    return locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

int columns_of(std::FILE* file) {
  winsize size{};
  if (ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::string repeated(const char* text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

std::string bar(double share, int width, bool utf8) {
  const auto full = std::clamp(static_cast<int>(share * width), 0, width);
  return repeated(utf8 ? "━" : "#", full) + repeated(utf8 ? "╌" : ".", width - full);
}

int percent(int64_t done, int64_t total) {
  return total > 0 ? static_cast<int>(100 * done / total) : 100;
}

}  // namespace

Progress::Progress(std::string label, int64_t total, std::FILE* file)
    : label_(std::move(label)),
      total_(total),
      file_(file),
      terminal_(isatty(fileno(file)) != 0),
      utf8_(locale_is_utf8()) {}

Progress::~Progress() {
  if (line_open_) fmt::print(file_, "\n");
  std::fflush(file_);
}

void Progress::update(int64_t done, const std::string& note) {
  const auto now = Clock::now();
  const auto pause = terminal_ ? Clock::duration(kRedraw) : Clock::duration(kLineEvery);
  if (done < total_ && last_drawn_ != Clock::time_point{} && now - last_drawn_ < pause) return;
  last_drawn_ = now;
  if (terminal_) {
    draw_bar(done, note);
  } else {
    print_line(done, note);
  }
  std::fflush(file_);
}

void Progress::draw_bar(int64_t done, const std::string& note) {
  const auto head = fmt::format("{} ", label_);
  const auto separator = note.empty() ? "" : "  ";
  auto tail =
      fmt::format(" {:>3}%{}{}  {}", percent(done, total_), separator, note, time_left(done));
  const auto columns = columns_of(file_) - 1;  // the last column would wrap on some terminals
  const auto room = columns - static_cast<int>(head.size() + tail.size());
  if (room < kMinimumBar) {  // too narrow for a bar
    auto line = label_ + tail;
    line.resize(std::min<size_t>(line.size(), static_cast<size_t>(std::max(columns, 0))));
    fmt::print(file_, "\r\033[K{}", line);
  } else {
    const auto share = total_ > 0 ? static_cast<double>(done) / static_cast<double>(total_) : 1.0;
    fmt::print(file_, "\r\033[K{}{}{}", head, bar(share, std::min(room, kMaximumBar), utf8_), tail);
  }
  line_open_ = true;
}

void Progress::print_line(int64_t done, const std::string& note) {
  fmt::print(file_, "{} {}/{} ({}%){}{}  {}\n", label_, done, total_, percent(done, total_),
             note.empty() ? "" : "  ", note, time_left(done));
}

std::string Progress::time_left(int64_t done) const {
  const std::chrono::duration<double> passed = Clock::now() - start_;
  const auto text = [](double seconds) {
    const auto whole = static_cast<int64_t>(std::lround(seconds));
    return fmt::format("{}:{:02}", whole / 60, whole % 60);
  };
  if (done >= total_) return "took " + text(passed.count());
  if (done == 0) return "ETA -:--";
  const auto left = static_cast<double>(total_ - done) / static_cast<double>(done);
  return "ETA " + text(passed.count() * left);
}

void Rate::add(double amount, double seconds) {
  constexpr double kWindow = 3;  // seconds over which old values fade
  const auto keep = std::exp(-seconds / kWindow);
  amount_ = amount_ * keep + amount;
  seconds_ = seconds_ * keep + seconds;
}

std::string short_number(double value) {
  if (value < 1000) return fmt::format("{:.0f}", value);
  if (value < 1e6) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.1f}M", value / 1e6);
}

}  // namespace antegrad::examples
