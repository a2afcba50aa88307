#include "graph/op.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <antegrad/error.h>

#include "graph/op_traits_table.h"
#include "graph/text_words.h"

namespace antegrad {
namespace {

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, text::is_name_character);
}

/// The base of "namespace::base.overload". Throws GraphError for a name of another form.
std::string_view checked_base_name(std::string_view name) {
  const size_t colons = name.find("::");
  const size_t dot = name.rfind('.');
  const bool well_formed = colons != std::string_view::npos && dot != std::string_view::npos &&
                           colons + 2 < dot && is_word(name.substr(0, colons)) &&
                           is_word(name.substr(colons + 2, dot - colons - 2)) &&
                           is_word(name.substr(dot + 1));
  if (!well_formed) {
    throw GraphError(ErrorText{"an operator name of the form namespace::name.overload",
                               "\"" + std::string(name) + "\"",
                               "write the overload \"default\" when the schema names none"});
  }
  return name.substr(0, dot);
}

}  // namespace

/// Owns all published descriptions and never frees them.
class OpRegistry {
 public:
  static OpRegistry& instance() {
    // Never destroyed: static graphs may be printed at process exit.
    static auto* registry = new OpRegistry;
    return *registry;
  }

  Op intern(std::string_view name) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = entries_.find(name); found != entries_.end()) return Op(found->second);
    const std::string_view base = checked_base_name(name);
    OpInfo info;
    info.name = std::string(name);
    info.base_name = std::string(base);
    info.traits = builtin_traits(base);
    info.inplace_name = builtin_inplace_name(base, name.substr(base.size() + 1));
    info.row = &op_row(base);
    return add(std::move(info));
  }

  Op declare(OpInfo declared) {
    const Op op = intern(declared.name);
    const std::scoped_lock lock(mutex_);
    const OpInfo& now = op.info();
    const bool new_traits = !now.traits.known && declared.traits.known;
    const bool new_names = !now.arg_names_declared && !declared.arg_names.empty();
    if (!new_traits && !new_names) return op;
    OpInfo merged = now;
    if (new_traits) merged.traits = declared.traits;
    if (new_names) {
      merged.arg_names = std::move(declared.arg_names);
      merged.arg_names_declared = true;
    }
    publish(op, std::move(merged));
    return op;
  }

  void suggest_arg_names(Op op, std::vector<std::string> names) {
    const std::scoped_lock lock(mutex_);
    OpInfo merged = op.info();
    if (merged.arg_names_declared) return;
    // Calls differ in which arguments are tensors, so hints are merged by position.
    bool learned = false;
    if (merged.arg_names.size() < names.size()) merged.arg_names.resize(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      if (!merged.arg_names[i].empty() || names[i].empty()) continue;
      merged.arg_names[i] = std::move(names[i]);
      learned = true;
    }
    if (learned) publish(op, std::move(merged));
  }

 private:
  Op add(OpInfo info) {
    const OpInfo& stored = infos_.emplace_back(std::move(info));
    Op::Entry& entry = atomics_.emplace_back(&stored);
    entries_.emplace(stored.name, &entry);
    return Op(&entry);
  }

  void publish(Op op, OpInfo info) {
    op.entry_->store(&infos_.emplace_back(std::move(info)), std::memory_order_release);
  }

  std::mutex mutex_;
  std::deque<OpInfo> infos_;
  std::deque<Op::Entry> atomics_;
  std::unordered_map<std::string_view, Op::Entry*> entries_;  // keys point into infos_
};

Op Op::intern(std::string_view name) { return OpRegistry::instance().intern(name); }
Op Op::declare(OpInfo info) { return OpRegistry::instance().declare(std::move(info)); }
void Op::suggest_arg_names(Op op, std::vector<std::string> names) {
  OpRegistry::instance().suggest_arg_names(op, std::move(names));
}

std::string short_name(std::string_view op) {
  if (op.starts_with("aten::")) op.remove_prefix(6);
  if (op.ends_with(".default")) op.remove_suffix(8);
  return std::string(op);
}

}  // namespace antegrad
