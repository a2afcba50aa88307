#include <iostream>
#include <memory>
#include <string>

#include <antegrad/error.h>

#include "command.h"
#include "options/page.h"

namespace antegrad::cli {
namespace {

struct Shown {
  std::string name;
  bool markdown = false;
  bool reference = false;
  bool json = false;
};

std::string text_of(const Shown& shown) {
  if (shown.reference) return reference_page();
  if (shown.markdown) return options_page();
  if (shown.json) return options_json();
  if (shown.name.empty()) return options_list();
  try {
    return details(option_named(shown.name));
  } catch (const OptionError& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

void add_options(CLI::App& app) {
  CLI::App* command = app.add_subcommand("options", "List the options of antegrad::compile");
  auto shown = std::make_shared<Shown>();
  command->footer(
      "Examples:\n  antegrad options memory_budget\n  antegrad options --json | jq '.[].name'\n"
      "  antegrad options debug_assert        an option of torch._functorch.config");
  CLI::Option* name = command->add_option("NAME", shown->name, "Show everything about this option");
  CLI::Option_group* form = command->add_option_group("form");
  form->add_flag("--markdown", shown->markdown, "The tables of docs/options.md")->excludes(name);
  form->add_flag("--reference", shown->reference,
                 "The table of torch._functorch.config in docs/options.md")
      ->excludes(name);
  form->add_flag("--json", shown->json, "A list of objects")->excludes(name);
  form->require_option(0, 1);
  command->callback([shown] { std::cout << text_of(*shown); });
}

}  // namespace antegrad::cli
