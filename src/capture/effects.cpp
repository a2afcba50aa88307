#include <antegrad/error.h>
#include <antegrad/inside.h>

#include "ops/op_table.h"

namespace antegrad {

void declare_effects(const std::string& op) {
  if (op.find("::") == std::string::npos || op.find('.') != std::string::npos) {
    throw InputError(ErrorText{"the name of an operator without overload, like mylib::log",
                               "\"" + op + "\"", "it is meant for all of its overloads"});
  }
  if (ops::declare_effects(op)) return;
  throw InputError(ErrorText{"a declaration before the first capture that meets " + op,
                             "that an earlier capture took it for an operator without effects",
                             "call declare_effects where the operator is registered"});
}

}  // namespace antegrad
