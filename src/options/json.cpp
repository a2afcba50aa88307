#include "options/json.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <antegrad/config.h>
#include <antegrad/error.h>
#include <nlohmann/json.hpp>

#include "graph/read_json.h"
#include "options/settings.h"

namespace antegrad {

using nlohmann::json;

json json_of(const OptionValue& value) {
  return std::visit(
      [](const auto& v) -> json {
        if constexpr (std::is_same_v<decltype(v), const std::monostate&>) {
          return nullptr;
        } else {
          return v;
        }
      },
      value);
}

std::optional<OptionValue> value_from(const json& value) {
  const auto is_text = [](const json& element) { return element.is_string(); };
  if (value.is_null()) return OptionValue();
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array() && std::all_of(value.begin(), value.end(), is_text)) {
    return value.get<std::vector<std::string>>();
  }
  return std::nullopt;
}

void set_option(Options& options, std::string_view name, std::string_view value) {
  set(option_named(name), options, std::string(value));
}

std::string option_text(const Options& options, std::string_view name) {
  return text_of(option_named(name).member.get(options));
}

std::string to_json(const Options& options) {
  nlohmann::ordered_json object;
  for (const OptionRow& row : option_rows()) {
    object[std::string(row.name)] = json_of(row.member.get(options));
  }
  try {
    return object.dump(2) + "\n";
  } catch (const json::exception& error) {
    throw OptionError(ErrorText{"options whose texts are UTF-8", error.what(), ""});
  }
}

Options options_from_json(std::string_view text) {
  nlohmann::ordered_json object;
  try {
    object = read_json<nlohmann::ordered_json>(text);
  } catch (const json::exception& error) {
    throw OptionError(ErrorText{"a JSON object of options", error.what(), ""});
  }
  if (!object.is_object()) {
    throw OptionError(ErrorText{"a JSON object of options", object.type_name(), ""});
  }
  std::vector<Setting> settings;
  for (const auto& [name, found] : object.items()) {
    const auto value = value_from(found);
    if (!value) refuse_value(option_named(name), found.dump());
    settings.emplace_back(name, *value);
  }
  Options options;
  apply_settings(settings, options);
  return options;
}

void save_options(const Options& options, const std::string& file) {
  std::ofstream stream(file, std::ios::binary);
  stream << to_json(options);
  stream.close();
  if (!stream)
    throw InputError(ErrorText{"a file that can be written", file, "make its folder first"});
}

Options load_options(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) throw InputError(ErrorText{"a file that can be read", file, std::strerror(errno)});
  try {
    return options_from_json(text);
  } catch (OptionError& error) {
    error.add_context("in " + file);
    throw;
  }
}

}  // namespace antegrad
