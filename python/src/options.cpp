#include "options.h"

#include <antegrad/error.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/byte_text.h"
#include "partition/min_cut_options.h"

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

// Options of the minimum cut have the names of min_cut_options.h.
void set_min_cut(Options& options, const char* name, py::handle value) {
  std::string text;
  if (py::isinstance<py::bool_>(value)) {
    text = value.cast<bool>() ? "true" : "false";
  } else if (py::isinstance<py::int_>(value)) {
    text = std::to_string(value.cast<int64_t>());
  } else if (py::isinstance<py::float_>(value) || py::isinstance<py::str>(value)) {
    text = py::str(value).cast<std::string>();
  } else {
    text = py::str(",").attr("join")(value).cast<std::string>();
  }
  apply_setting(options.min_cut, std::string(name) + "=" + text);
}

// Chooses the partition by rules as well.
void set_activation_memory_budget(Options& options, const char* name, py::handle value) {
  set_min_cut(options, name, value);
  options.partition = Partitioner::min_cut;
}

// Chooses the partition by a budget as well.
void set_memory_budget(Options& options, const char* name, py::handle value) {
  std::optional<int64_t> bytes;
  if (py::isinstance<py::int_>(value) && !py::isinstance<py::bool_>(value)) {
    bytes = value.cast<int64_t>();
  } else if (py::isinstance<py::str>(value)) {
    bytes = bytes_from_text(value.cast<std::string>());
  }
  if (!bytes) refuse_value(name, "a number of bytes, or a text such as '512MiB',", value);
  options.with_memory_budget(*bytes, options.budget.effort);
}

void set_memory_share(Options& options, const char* name, py::handle value) {
  if (!py::isinstance<py::float_>(value) && !py::isinstance<py::int_>(value)) {
    refuse_value(name, "a number between 0 and 1", value);
  }
  options.with_memory_share(value.cast<double>(), options.budget.effort);
}

void set_budget_effort(Options& options, const char* name, py::handle value) {
  const auto word = py::isinstance<py::str>(value) ? value.cast<std::string>() : "";
  if (word != "quick" && word != "thorough")
    refuse_value(name, "one of 'quick', 'thorough'", value);
  options.budget.effort = word == "quick" ? BudgetEffort::quick : BudgetEffort::thorough;
}

void set_budget_profile(Options& options, const char* name, py::handle value) {
  if (!py::isinstance<py::bool_>(value)) refuse_value(name, kExpected<bool>, value);
  options.budget.profile = value.cast<bool>();
}

void set_dump_dir(Options& options, const char* /*name*/, py::handle value) {
  options.dump_dir = py::str(value).cast<std::string>();  // a pathlib.Path as well
}

struct Option {
  std::string name;
  Setter set;
};

std::vector<Option> all_options() {
  std::vector<Option> options = {
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
      {"partition", one_of(&Options::partition, {{"as_written", Partitioner::as_written},
                                                 {"min_cut", Partitioner::min_cut},
                                                 {"budget", Partitioner::budget}})},
      {"memory_budget", set_memory_budget},
      {"memory_share", set_memory_share},
      {"budget_effort", set_budget_effort},
      {"budget_profile", set_budget_profile},
      {"verify_graphs", plain(&Options::verify_graphs)},
      {"dump_dir", set_dump_dir},
  };
  for (auto& name : setting_names()) {
    const bool budget = name == "activation_memory_budget";
    options.push_back({std::move(name), budget ? set_activation_memory_budget : set_min_cut});
  }
  return options;
}

const std::vector<Option>& known_options() {
  static const auto* options = new std::vector<Option>(all_options());
  return *options;
}

[[noreturn]] void refuse_name(const std::string& name) {
  py::list names;
  for (const auto& option : known_options()) names.append(option.name);
  const py::list nearest =
      py::module_::import("difflib").attr("get_close_matches")(name, names, 1, 0.5);
  throw OptionError(ErrorText{
      "an option of antegrad: " + py::str(", ").attr("join")(names).cast<std::string>(), name,
      nearest.empty() ? "" : "did you mean " + nearest[0].cast<std::string>() + "?"});
}

}  // namespace

Options options_from(const py::dict& given) {
  Options options;
  const auto& all = known_options();
  for (const auto& [key, value] : given) {
    const auto name = py::str(key).cast<std::string>();
    const auto option = std::find_if(all.begin(), all.end(),
                                     [&](const Option& known) { return known.name == name; });
    if (option == all.end()) refuse_name(name);
    option->set(options, option->name.c_str(), value);
  }
  return options;
}

}  // namespace antegrad::python
