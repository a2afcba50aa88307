#include <string_view>

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

// Once, where one error is put into the words of another.
std::string with_next_step(const std::string& message) {
  constexpr std::string_view kNextStep =
      "; please report this with a small graph: ANTEGRAD_DUMP=DIR records the graph, and antegrad "
      "minify DIR/00-capture.agraph shrinks it";
  return message.find(kNextStep) == std::string::npos ? message + std::string(kNextStep) : message;
}

}  // namespace

Error::Error(const ErrorText& text) : Error(sentence(text)) {}

CaptureError::CaptureError(std::string op, const ErrorText& text)
    : Error(op.empty() ? sentence(text) : op + ": " + sentence(text)), op_(std::move(op)) {}

InternalError::InternalError(const std::string& message) : Error(with_next_step(message)) {}

void detail::internal_failure(const char* condition, const char* file, int line,
                              const std::string& note) {
  throw InternalError(fmt::format("internal error in antegrad: {} ({} does not hold at {}:{})",
                                  note, condition, file, line));
}

}  // namespace antegrad
