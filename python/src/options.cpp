#include "options.h"

#include <antegrad/error.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace antegrad::python {
namespace {

[[noreturn]] void refuse_value(const char* name, const std::string& expected, py::handle value) {
  throw OptionError(
      ErrorText{expected + " for the option " + name, py::repr(value).cast<std::string>(), ""});
}

template <class T>
constexpr const char* kExpected = nullptr;
template <>
constexpr const char* kExpected<int64_t> = "a number";
template <>
constexpr const char* kExpected<std::string> = "a string";
template <>
constexpr const char* kExpected<bool> = "True or False";

template <class Enum>
using Words = std::vector<std::pair<std::string, Enum>>;

// Sets a member of Options from a value of Python's; the name is for errors.
using Setter = std::function<void(Options& options, const char* name, py::handle value)>;

template <class T>
Setter plain(T Options::*member) {
  return [member](Options& options, const char* name, py::handle value) {
    try {
      options.*member = value.cast<T>();
    } catch (const py::cast_error&) {
      refuse_value(name, kExpected<T>, value);
    }
  };
}

template <class Enum>
Setter one_of(Enum Options::*member, Words<Enum> words) {
  return [member, words = std::move(words)](Options& options, const char* name, py::handle value) {
    std::string all;
    for (const auto& [word, meaning] : words) {
      if (py::isinstance<py::str>(value) && value.cast<std::string>() == word) {
        options.*member = meaning;
        return;
      }
      all += (all.empty() ? "'" : ", '") + word + "'";
    }
    refuse_value(name, "one of " + all, value);
  };
}

void set_dump_dir(Options& options, const char* /*name*/, py::handle value) {
  options.dump_dir = py::str(value).cast<std::string>();  // a pathlib.Path as well
}

struct Option {
  const char* name;
  Setter set;
};

const Option kOptions[] = {
    {"name", plain(&Options::name)},
    {"max_programs", plain(&Options::max_programs)},
    {"on_refusal",
     one_of(&Options::on_refusal, {{"error", OnRefusal::error}, {"eager", OnRefusal::eager}})},
    {"audit", one_of(&Options::audit,
                     {{"off", Audit::off}, {"pow2", Audit::pow2}, {"every", Audit::every}})},
    {"check_against_eager", plain(&Options::check_against_eager)},
    {"cross_check_shapes",
     one_of(&Options::cross_check_shapes, {{"off", CrossCheckShapes::off},
                                           {"error", CrossCheckShapes::error},
                                           {"use_kernel", CrossCheckShapes::use_kernel}})},
    {"verify_graphs", plain(&Options::verify_graphs)},
    {"dump_dir", set_dump_dir},
};

[[noreturn]] void refuse_name(const std::string& name) {
  py::list names;
  for (const auto& option : kOptions) names.append(option.name);
  const py::list nearest =
      py::module_::import("difflib").attr("get_close_matches")(name, names, 1, 0.5);
  throw OptionError(ErrorText{
      "an option of antegrad: " + py::str(", ").attr("join")(names).cast<std::string>(), name,
      nearest.empty() ? "" : "did you mean " + nearest[0].cast<std::string>() + "?"});
}

}  // namespace

Options options_from(const py::dict& given) {
  Options options;
  for (const auto& [key, value] : given) {
    const auto name = py::str(key).cast<std::string>();
    const auto option = std::find_if(std::begin(kOptions), std::end(kOptions),
                                     [&](const Option& known) { return known.name == name; });
    if (option == std::end(kOptions)) refuse_name(name);
    option->set(options, option->name, value);
  }
  return options;
}

}  // namespace antegrad::python
