#include "capture/call_site.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace antegrad::capture {
namespace {

// Shared objects whose frames are not user code.
constexpr std::string_view kNotUser[] = {"libtorch",   "libc10",  "libantegrad",
                                         "libstdc++",  "libgcc",  "libc.so",
                                         "linux-vdso", "libasan", "libtsan"};

// The Python interpreter, as a library or a program: its frames stand for lines of Python.
constexpr std::string_view kPython[] = {"libpython", "python"};

// Added to places in objects without debug information.
constexpr const char* kNoLine = " (compile it with -g1 to see the line)";

bool is_one_of(std::span<const std::string_view> names, std::string_view path) {
  const auto file = path.substr(path.rfind('/') + 1);
  return std::any_of(names.begin(), names.end(), [&](auto name) { return file.starts_with(name); });
}

// Source lines of a frame and of functions inlined into it, innermost first, by addr2line of
// binutils. Empty if it is not installed or the object has no debug information.
std::string source_lines(const std::string& object, uintptr_t offset) {
  if (object.find('\'') != std::string::npos) return "";
  const auto command = fmt::format("addr2line -i -s -e '{}' {:#x} 2>/dev/null", object, offset);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string out;
  std::array<char, 512> line{};
  while (pipe && std::fgets(line.data(), line.size(), pipe.get()) != nullptr) out += line.data();
  return out;
}

// The first line outside of headers, since inlined library code precedes the user's line.
std::string first_user_line(const std::string& lines) {
  std::string_view rest = lines;
  while (!rest.empty()) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto file = line.substr(0, line.find(':'));
    const bool header = file.ends_with(".h") || file.ends_with(".hpp") ||
                        file.find('.') == std::string_view::npos || file.starts_with("??");
    if (!header) return std::string(line.substr(0, line.find(' ')));
  }
  return "";
}

}  // namespace

std::string call_site(std::span<void* const> frames) {
  std::string fallback = "an unknown place";
  bool found = false;
  for (void* const frame : frames) {
    Dl_info info{};
    if (dladdr(frame, &info) == 0 || info.dli_fname == nullptr) continue;
    if (is_one_of(kNotUser, info.dli_fname)) continue;
    if (!found && is_one_of(kPython, info.dli_fname)) return "a line of Python";
    // The return address is past the call; one byte back is inside it.
    const auto offset =
        reinterpret_cast<uintptr_t>(frame) - 1 - reinterpret_cast<uintptr_t>(info.dli_fbase);
    const auto lines = source_lines(info.dli_fname, offset);
    const auto line = first_user_line(lines);
    if (line.ends_with(":?")) return line.substr(0, line.size() - 2) + kNoLine;
    if (!line.empty()) return line;
    if (found) continue;
    fallback = fmt::format("{}+{:#x}{}", info.dli_fname, offset, lines.empty() ? "" : kNoLine);
    found = true;
  }
  return fallback;
}

std::vector<void*> stack_frames() {
  std::array<void*, 96> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  return std::vector<void*>(frames.begin(), frames.begin() + count);
}

std::string call_site() { return call_site(stack_frames()); }

std::string call_site(std::string_view backtrace) {
  // A frame is "frame #3: at::tensor(...) + 0x50 (0x7f4eec9c0be4 in libtorch.so)".
  std::vector<void*> frames;
  for (auto at = backtrace.find(" (0x"); at != backtrace.npos;
       at = backtrace.find(" (0x", at + 1)) {
    uintptr_t address = 0;
    const auto* end = backtrace.data() + backtrace.size();
    if (std::from_chars(backtrace.data() + at + 4, end, address, 16).ec == std::errc()) {
      frames.push_back(reinterpret_cast<void*>(address));
    }
  }
  return call_site(std::span<void* const>(frames));
}

}  // namespace antegrad::capture
