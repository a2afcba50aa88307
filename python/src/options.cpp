#include "options.h"

#include <antegrad/error.h>

#include <string>
#include <utility>

namespace antegrad::python {
namespace {

template <class T>
T value_of(const char* name, py::handle value, const char* expected) {
  try {
    return value.cast<T>();
  } catch (const py::cast_error&) {
    throw OptionError(ErrorText{std::string(expected) + " for the option " + name,
                                py::repr(value).cast<std::string>(), ""});
  }
}

template <class Enum>
using Words = std::initializer_list<std::pair<const char*, Enum>>;

template <class Enum>
Enum word_of(const char* name, py::handle value, Words<Enum> words) {
  std::string all;
  for (const auto& [word, meaning] : words) {
    if (py::isinstance<py::str>(value) && value.cast<std::string>() == word) return meaning;
    all += (all.empty() ? "'" : ", '") + std::string(word) + "'";
  }
  throw OptionError(ErrorText{"one of " + all + " for the option " + name,
                              py::repr(value).cast<std::string>(), ""});
}

struct Option {
  const char* name;
  void (*set)(Options& options, py::handle value);
};

constexpr const char* kNumber = "a number";
constexpr const char* kText = "a string";
constexpr const char* kFlag = "True or False";

const Option kOptions[] = {
    {"name", [](Options& o, py::handle v) { o.name = value_of<std::string>("name", v, kText); }},
    {"max_programs",
     [](Options& o, py::handle v) {
       o.max_programs = value_of<int64_t>("max_programs", v, kNumber);
     }},
    {"on_refusal",
     [](Options& o, py::handle v) {
       o.on_refusal = word_of<OnRefusal>(
           "on_refusal", v, {{"error", OnRefusal::error}, {"eager", OnRefusal::eager}});
     }},
    {"audit",
     [](Options& o, py::handle v) {
       o.audit = word_of<Audit>(
           "audit", v, {{"off", Audit::off}, {"pow2", Audit::pow2}, {"every", Audit::every}});
     }},
    {"check_against_eager",
     [](Options& o, py::handle v) {
       o.check_against_eager = value_of<int64_t>("check_against_eager", v, kNumber);
     }},
    {"verify_graphs",
     [](Options& o, py::handle v) { o.verify_graphs = value_of<bool>("verify_graphs", v, kFlag); }},
    {"dump_dir",
     [](Options& o, py::handle v) {
       o.dump_dir = value_of<std::string>("dump_dir", py::str(v), kText);
     }},
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
    bool known = false;
    for (const auto& option : kOptions) {
      if (name != option.name) continue;
      option.set(options, value);
      known = true;
    }
    if (!known) refuse_name(name);
  }
  return options;
}

}  // namespace antegrad::python
