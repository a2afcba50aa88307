#include "log/log.h"

#include <antegrad/compile.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support/parity.h"

namespace antegrad::testing {
namespace log_test {

struct Line {
  std::string name;
  LogLevel level;
  std::string text;
};

// Collects what is logged, under these settings.
class Logs {
 public:
  explicit Logs(const std::string& wanted) {
    set_logs(wanted);
    set_log_sink([this](std::string_view name, LogLevel level, const std::string& text) {
      lines.push_back({std::string(name), level, text});
      return true;
    });
  }
  ~Logs() {
    set_log_sink(nullptr);
    set_logs("");
  }
  std::multiset<std::string> names() const {
    std::multiset<std::string> all;
    for (const auto& line : lines) all.insert(line.name);
    return all;
  }

  std::vector<Line> lines;
};

// Two programs of a callable.
void compile_twice() {
  auto step = compile([](const at::Tensor& x) { return x.sin().exp().sum(); });
  const auto x = at::randn({4}).set_requires_grad(true);
  step(x).backward();
  step(at::randn({4}));
}

TEST(Logs, WarningsAreOnAndTheTextOfWhatIsOffIsNotBuilt) {
  const Logs logs("");
  for (size_t i = 0; i < log_rows().size(); ++i) {
    const auto which = static_cast<Log>(i);
    EXPECT_TRUE(log_enabled(which, LogLevel::warning));
    log(which, []() -> std::string { throw std::logic_error("built"); });
  }
  compile_twice();
  EXPECT_TRUE(logs.lines.empty());
}

TEST(Logs, TheSyntaxIsThatOfTorchLogs) {
  const auto levels = [](const std::string& wanted) {
    set_logs(wanted);
    std::map<std::string_view, LogLevel> least;
    for (size_t i = 0; i < log_rows().size(); ++i) {
      for (const auto level :
           {LogLevel::error, LogLevel::warning, LogLevel::info, LogLevel::debug}) {
        if (log_enabled(static_cast<Log>(i), level)) least[log_rows()[i].name] = level;
      }
    }
    set_logs("");
    return least;
  };
  auto found = levels("+graphs, recompiles,-shapes");
  EXPECT_EQ(found["graphs"], LogLevel::debug);
  EXPECT_EQ(found["recompiles"], LogLevel::info);
  EXPECT_EQ(found["shapes"], LogLevel::error);
  EXPECT_EQ(found["memory"], LogLevel::warning);
  found = levels("all,+partition");
  EXPECT_EQ(found["memory"], LogLevel::info);
  EXPECT_EQ(found["partition"], LogLevel::debug);
}

TEST(Logs, AnUnknownNameSuggestsNearOnes) {
  const auto refusal_of = [](const char* wanted) -> std::string {
    try {
      set_logs(wanted);
    } catch (const OptionError& error) {
      return error.what();
    }
    return "";
  };
  set_logs("memory");
  EXPECT_NE(refusal_of("recompile").find("did you mean recompiles?"), std::string::npos);
  EXPECT_NE(refusal_of("xyzzy").find("graphs"), std::string::npos);
  EXPECT_TRUE(log_enabled(Log::memory));  // as before
  set_logs("");
}

TEST(Logs, ACompilationLogsEveryNameThatItConcerns) {
  const Logs logs("captures,graphs,guards,recompiles,partition,memory");
  compile_twice();
  EXPECT_EQ(logs.names(), (std::multiset<std::string>{"captures", "captures", "graphs", "graphs",
                                                      "guards", "guards", "memory", "memory",
                                                      "partition", "partition", "recompiles"}));
  for (const auto& line : logs.lines) EXPECT_EQ(line.level, LogLevel::info) << line.text;
}

TEST(Logs, DetailsAreForPlus) {
  const auto text_of = [](const std::string& wanted) {
    const Logs logs(wanted);
    compile_twice();
    std::string text;
    for (const auto& line : logs.lines) text += line.text + "\n";
    return text;
  };
  EXPECT_EQ(text_of("partition").find("saved  "), std::string::npos);
  EXPECT_NE(text_of("+partition").find("saved  "), std::string::npos);
  EXPECT_EQ(text_of("graphs").find("step.backward"), std::string::npos);
  EXPECT_NE(text_of("+graphs").find("step.backward"), std::string::npos);
  EXPECT_NE(text_of("+memory").find("aten::exp"), std::string::npos);
  EXPECT_NE(text_of("+captures").find("simplify"), std::string::npos);
}

TEST(Logs, HelpNamesEverything) {
  for (const auto& row : log_rows()) {
    EXPECT_NE(logs_help().find(row.name), std::string::npos) << row.name;
  }
}

}  // namespace log_test
}  // namespace antegrad::testing
