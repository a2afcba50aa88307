#include "guards/origin.h"

#include <algorithm>

#include "graph/hash_bits.h"
#include "graph/text.h"
#include "guards/changed.h"
#include "guards/host_values.h"
#include "torch_compat/tensor_state.h"

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

uint64_t mix(uint64_t state, const std::vector<HostValue>& values) {
  for (const auto& value : values) state = mix_bits(state, hash_value(value));
  return state;
}

}  // namespace

uint64_t Call::hash() const {
  uint64_t state = 0;
  for (const auto& tensor : arguments.tensors) {
    if (!tensor.defined() || torch_compat::why_not_strided(tensor) != nullptr) continue;
    for (const auto size : tensor.sizes()) state = mix_bits(state, size);
  }
  state = mix(state, arguments.host);
  for (const auto& values : declared) state = mix(state, values);
  return state;
}

bool Origin::fits_beside_data(const Call& call, std::string* why) const {
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
  return true;
}

bool Origin::fits(const Call& call, std::string* why) const {
  if (!fits_beside_data(call, why)) return false;
  for (size_t i = 0; i < call.answers.size(); ++i) {
    if (i < questions.size() && questions[i].assumed == call.answers[i]) continue;
    return misfit(why, [&] { return other_answer(*this, i, call.answers[i]); });
  }
  return guards.holds(call.arguments, call.types, why);
}

bool Origin::fits_but_for_sizes(const Call& call) const {
  return fits_beside_data(call, nullptr) && call.answers.size() <= questions.size() &&
         std::equal(call.answers.begin(), call.answers.end(), questions.begin(),
                    [](const auto& answer, const auto& question) {
                      return ops::equal_but_for_sizes(question.assumed, answer);
                    }) &&
         guards.holds_but_for_sizes(call.arguments, call.types);
}

}  // namespace antegrad::guards
