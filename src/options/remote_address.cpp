#include "options/remote_address.h"

#include <charconv>
#include <optional>
#include <string_view>

#include <antegrad/error.h>

namespace antegrad {
namespace {

[[noreturn]] void refuse(const std::string& found) {
  throw OptionError(
      ErrorText{"remote_cache: \"redis://[user@]host[:port][/database][?timeout_ms=N]\", or rediss "
                "for TLS",
                found, "leave it empty for no remote cache"});
}

template <class Number>
Number number_in(std::string_view text, Number least, Number most, const char* what) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) {
    refuse(std::string(what) + " \"" + std::string(text) + "\"");
  }
  return number;
}

/// What is behind the first `mark` of `text`, which keeps what is in front of it.
std::optional<std::string_view> split_off(std::string_view& text, char mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const auto behind = text.substr(at + 1);
  text = text.substr(0, at);
  return behind;
}

}  // namespace

RemoteAddress remote_address(const std::string& url) {
  constexpr int kMostDatabases = 1 << 20;
  constexpr int64_t kLongest = 600'000;
  RemoteAddress address;
  std::string_view rest = url;
  if (rest.starts_with("rediss://")) {
    address.tls = true;
  } else if (!rest.starts_with("redis://")) {
    refuse("an address that begins in another way");
  }
  rest.remove_prefix(rest.find("//") + 2);
  if (const auto query = split_off(rest, '?')) {
    constexpr std::string_view kTimeout = "timeout_ms=";
    if (!query->starts_with(kTimeout)) refuse("\"?" + std::string(*query) + "\"");
    address.time_limit = std::chrono::milliseconds(
        number_in<int64_t>(query->substr(kTimeout.size()), 1, kLongest, "timeout_ms"));
  }
  if (const auto database = split_off(rest, '/'); database && !database->empty()) {
    address.database = number_in(*database, 0, kMostDatabases, "the database");
  }
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    address.user = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    if (address.user.find(':') != std::string::npos) {
      refuse("a password in it; set ANTEGRAD_REMOTE_CACHE_PASSWORD instead");
    }
  }
  std::optional<std::string_view> port;
  if (rest.starts_with('[')) {
    rest.remove_prefix(1);
    const auto behind = split_off(rest, ']');
    if (!behind || (!behind->empty() && behind->front() != ':')) refuse("a bracket that is open");
    if (!behind->empty()) port = behind->substr(1);
  } else {
    port = split_off(rest, ':');
  }
  if (port) address.port = number_in<uint16_t>(*port, 1, UINT16_MAX, "the port");
  if (rest.empty()) refuse("no host");
  address.host = rest;
  return address;
}

}  // namespace antegrad
