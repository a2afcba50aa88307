#include "logs.h"

#include <antegrad/logs.h>

#include <string>
#include <vector>

#include "log/log.h"
#include "log/trace.h"

namespace antegrad::python {
namespace {

// A Python function that is called from any thread, and never freed, since threads may outlive the
// interpreter's modules.
template <class... Args>
bool call(PyObject* function, const Args&... args) {
  const py::gil_scoped_acquire gil;
  try {
    return py::handle(function)(args...).template cast<bool>();
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("a log of antegrad");
    return false;
  }
}

void forward_logs(const py::object& function) {
  if (function.is_none()) return set_log_sink(nullptr);
  set_log_sink([take = function.inc_ref().ptr()](std::string_view name, LogLevel level,
                                                 const std::string& text) {
    return call(take, name, static_cast<int>(level), text);
  });
}

void forward_traces(const py::object& function) {
  if (function.is_none()) return set_trace_sink(nullptr);
  set_trace_sink([take = function.inc_ref().ptr()](const TraceId& id, const TraceArtifact& of) {
    call(take, id.frame, id.compile, of.name, of.encoding, of.payload);
  });
}

std::vector<std::string> log_names() {
  std::vector<std::string> names;
  for (const auto& row : log_rows()) names.emplace_back(row.name);
  return names;
}

}  // namespace

void add_logs(py::module_& module) {
  module.def("set_logs", &set_logs, py::arg("settings"),
             "Sets what the process logs: names, separated by commas, with the syntax of "
             "TORCH_LOGS. logs_help() lists them.");
  module.def("logs_help", &logs_help, "The names of logs, each with what it logs.");
  module.def("log_names", &log_names);
  module.def(
      "set_log_level",
      [](size_t log, int level) {
        set_front_end_level(static_cast<Log>(log), static_cast<LogLevel>(level));
      },
      py::arg("log"), py::arg("level"));
  module.def("forward_logs", &forward_logs, py::arg("function"));
  module.def("forward_traces", &forward_traces, py::arg("function"));
}

}  // namespace antegrad::python
