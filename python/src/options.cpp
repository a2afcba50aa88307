#include "options.h"

#include <antegrad/config.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "options/defaults.h"
#include "options/reference.h"
#include "options/settings.h"
#include "options/table.h"

namespace antegrad::python {
namespace {

// Nothing for a type that no option has.
std::optional<OptionValue> value_from(py::handle value) {
  if (value.is_none()) return OptionValue();
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::float_>(value)) return value.cast<double>();
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (py::hasattr(value, "__fspath__")) return py::str(value).cast<std::string>();
  try {
    if (py::isinstance<py::int_>(value)) return value.cast<int64_t>();
    if (!py::isinstance<py::iterable>(value)) return std::nullopt;
    return py::list(py::reinterpret_borrow<py::object>(value)).cast<std::vector<std::string>>();
  } catch (const py::cast_error&) {
    return std::nullopt;
  }
}

py::object object_of(const OptionValue& value) {
  return std::visit(
      [](const auto& v) -> py::object {
        if constexpr (std::is_same_v<decltype(v), const std::monostate&>) {
          return py::none();
        } else {
          return py::cast(v);
        }
      },
      value);
}

OptionValue value_of(const std::string& name, py::handle given) {
  const OptionRow& row = option_named(name);
  auto value = value_from(given);
  if (!value) refuse_value(row, py::repr(given).cast<std::string>());
  return *std::move(value);
}

Options with(Options options, const py::dict& given) {
  std::vector<Setting> settings;
  for (const auto& [key, value] : given) {
    auto name = py::str(key).cast<std::string>();
    auto setting = value_of(name, value);
    settings.emplace_back(std::move(name), std::move(setting));
  }
  apply_settings(settings, options);
  return options;
}

// OptionsPatch as a context manager.
class Patch {
 public:
  explicit Patch(py::dict given) : given_(std::move(given)) {}
  void enter() { patch_.emplace(with(default_options(), given_)); }
  void exit(const py::args& /*error*/) { patch_.reset(); }

 private:
  py::dict given_;
  std::optional<OptionsPatch> patch_;
};

}  // namespace

Options options_from(const py::dict& given, const std::string& name, const Options& defaults) {
  Options options = with(defaults, given);
  if (!given.contains("name") && options.name == Options().name) options.name = name;
  return options;
}

void add_config(py::module_& module) {
  py::class_<Patch>(module, "Patch")
      .def(py::init<py::dict>())
      .def("__enter__", &Patch::enter)
      .def("__exit__", &Patch::exit);
  module.def("option_names", [] {
    py::list names;
    for (const OptionRow& row : option_rows()) names.append(py::str(std::string(row.name)));
    return names;
  });
  module.def("reference_options", [] {
    py::list names;
    for (const ReferenceOption& option : reference_options())
      names.append(py::str(std::string(option.name)));
    return names;
  });
  module.def("get_default", [](const std::string& name) {
    return object_of(option_named(name).member.get(default_options()));
  });
  module.def("set_default", [](const std::string& name, py::handle given) {
    const OptionValue value = value_of(name, given);
    update_default_options([&](Options& options) { set(option_named(name), options, value); });
  });
  module.def("save_config", [] { return py::bytes(to_json(default_options())); });
  module.def("load_config", [](const py::bytes& json) {
    set_default_options(options_from_json(static_cast<std::string>(json)));
  });
}

}  // namespace antegrad::python
