#include "lower/group_paths.h"

#include <utility>
#include <variant>

#include "lower/element_type.h"
#include "lower/group_kernel.h"

namespace antegrad::lower {

void GroupPaths::refuse(int32_t position, std::string reason) {
  throw NoKernel{position, std::move(reason)};
}

Id GroupPaths::value(int32_t position, const RecipeCall& call, const CodeBuilder::Site& site,
                     const RecipeRow& usual, bool converted) {
  const RecipeRow* row = &usual;
  const bool converts = site.recipe.result && is_floating(*site.recipe.result);
  const EagerRow eager = eager_row(layout_, graph_.nodes[position].outputs[0], call);
  // Eager converts an operand before, and strides of the copy are not known.
  if (!eager.known || converted) {
    const auto value = same_everywhere(site);
    if (!value) {
      refuse(position,
             name(position) + (converted ? " depends on positions, and converts an operand"
                                         : " depends on positions, and its elements share memory"));
    }
    return *value;
  }
  if (!eager.vectors || converts) return code_.formula(row->tail, site);
  if (!eager.constant.empty()) {
    const auto other = site.recipe.row(site.element, cpu_.capability, eager.constant);
    if (const auto* constant = std::get_if<const RecipeRow*>(&other)) row = *constant;
  }
  const Id body = code_.formula(row->body, site);
  const Id tail = code_.formula(row->tail, site);
  if (!row->tail16.empty() && code_.formula(row->tail16, site) != tail) {
    refuse(position, name(position) + " ends its rows in groups of 16 bytes");
  }
  if (body == tail) return body;
  if (eager.order != group_.order()) {
    refuse(position, name(position) + " depends on positions, and ran in another order or over " +
                         "another number of elements");
  }
  const int64_t block = int64_t{site.recipe.vectors} * site.recipe.vector_bytes(cpu_.capability) /
                        byte_size(site.element);
  if (space_.kind != Space::elements) return in_row(position, call, eager, block, body, tail);
  // Few elements are not split at all.
  const ThreadSplit split = elements() <= kGeluGrain ? ThreadSplit::grain : site.recipe.split;
  if (split_.value_or(split) != split) {
    refuse(position, name(position) + " is split among threads in another way");
  }
  split_ = split;
  return path(body, tail, block, eager);
}

Id GroupPaths::path(Id body, Id tail, int64_t block, const EagerRow& eager) {
  return code_.add({Op::path,
                    code_.type_of(body),
                    {body, tail},
                    static_cast<uint64_t>(block),
                    static_cast<int32_t>(eager.row)});
}

// Calls of a kernel over rows do not begin and end where eager's threads do.
Id GroupPaths::in_row(int32_t position, const RecipeCall& call, const EagerRow& eager,
                      int64_t block, Id body, Id tail) {
  const int64_t a_thread = elements_of_a_thread(call.recipe->split, elements(), cpu_.threads);
  switch (row_ends(layout_, space_, eager, block, elements(), a_thread)) {
    case RowEnds::none: return body;
    case RowEnds::rows: break;
    case RowEnds::whole:
      split_ = ThreadSplit::whole;
      whole_ = position;
      break;
    case RowEnds::unknown:
      refuse(position, name(position) + " depends on positions, and ran in other rows, or in " +
                           "parts that are no whole rows");
  }
  return path(body, tail, block, eager);
}

// The value of all rows that may apply, in body and tail; nothing if they differ.
std::optional<Id> GroupPaths::same_everywhere(const CodeBuilder::Site& site) {
  std::optional<Id> value;
  for (const RecipeRow& candidate : site.recipe.rows) {
    const auto found = site.recipe.row(site.element, cpu_.capability, candidate.constant);
    const auto* row = std::get_if<const RecipeRow*>(&found);
    if (row == nullptr) continue;
    for (const Formula* formula : {&(*row)->body, &(*row)->tail, &(*row)->tail16}) {
      if (formula->empty()) continue;
      const Id id = code_.formula(*formula, site);
      if (value.value_or(id) != id) return {};
      value = id;
    }
  }
  return value;
}

}  // namespace antegrad::lower
