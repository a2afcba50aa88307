#include "guards/origin.h"

#include "graph/text.h"
#include "guards/changed.h"
#include "guards/host_values.h"

namespace antegrad::guards {
namespace {

bool same_hooks(const detail::HookPair* a, const detail::HookPair* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->key == b->key;
}

std::string other_answer(const Origin& origin, size_t number, const ops::Answer& answer) {
  const auto is = ops::to_text(answer);
  if (number >= origin.questions.size()) return "data were not asked what is now " + is;
  const auto& was = origin.questions[number];
  const auto raw = origin.raw->unpack();
  const auto& node = raw.nodes[was.node];
  return "what data answer to " + node_text(raw, node) + " was " + ops::to_text(was.assumed) +
         ", is " + is;
}

}  // namespace

bool Origin::fits(const Call& call, std::string* why) const {
  if (!same_hooks(call.hooks.get(), hooks.get())) {
    return misfit(why, [&] { return "hooks on saved tensors are others"; });
  }
  for (size_t i = 0; i < call.declared.size(); ++i) {
    if (same_host(call.declared[i], declared[i])) continue;
    return misfit(why, [&] {
      return "guard " + std::to_string(i) + " was " + host_text(declared[i]) + ", is " +
             host_text(call.declared[i]);
    });
  }
  for (size_t i = 0; i < call.answers.size(); ++i) {
    if (i < questions.size() && questions[i].assumed == call.answers[i]) continue;
    return misfit(why, [&] { return other_answer(*this, i, call.answers[i]); });
  }
  return guards.holds(call.arguments, call.types, why);
}

}  // namespace antegrad::guards
