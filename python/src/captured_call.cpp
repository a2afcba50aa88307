#include "captured_call.h"

#include <antegrad/error.h>

#include <string>

#include "capture/libtorch_errors.h"

namespace antegrad::python {
namespace {

// "at file.py:12, in f": the innermost line outside of libtorch.
std::string place_of(const py::error_already_set& error) {
  const auto torch =
      py::module_::import("torch").attr("__path__").attr("__getitem__")(0).cast<std::string>();
  std::string place;
  for (const auto frame : py::module_::import("traceback").attr("extract_tb")(error.trace())) {
    const auto file = frame.attr("filename").cast<std::string>();
    if (file.starts_with(torch)) continue;
    place = "at " + file + ":" + py::str(frame.attr("lineno")).cast<std::string>() + ", in " +
            frame.attr("name").cast<std::string>();
  }
  return place;
}

}  // namespace

py::object call_captured(const py::object& callable, const py::tuple& args,
                         const py::dict& kwargs) {
  try {
    return callable(*args, **kwargs);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_RuntimeError)) throw;
    try {
      capture::rethrow_foreign(py::str(error.value()).cast<std::string>());
    } catch (Error& typed) {
      typed.add_context(place_of(error));
      throw;
    }
    throw;
  }
}

}  // namespace antegrad::python
