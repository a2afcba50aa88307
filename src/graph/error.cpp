#include <fmt/format.h>

#include <antegrad/error.h>

namespace antegrad {
namespace {

std::string sentence(const ErrorText& text) {
  std::string message;
  const auto append = [&message](const char* lead, const std::string& part) {
    if (part.empty()) return;
    if (!message.empty()) message += "; ";
    message += lead;
    message += part;
  };
  append("expected ", text.expected);
  append("found ", text.found);
  append("", text.remedy);
  return message;
}

}  // namespace

Error::Error(const ErrorText& text) : Error(sentence(text)) {}

CaptureError::CaptureError(std::string op, const ErrorText& text)
    : Error(op.empty() ? sentence(text) : op + ": " + sentence(text)), op_(std::move(op)) {}

void detail::internal_failure(const char* condition, const char* file, int line,
                              const std::string& note) {
  throw InternalError(
      fmt::format("internal error in antegrad: {} ({} does not hold at {}:{}). "
                  "Please report this with the graph that caused it.",
                  note, condition, file, line));
}

}  // namespace antegrad
