#include "eager/random_record.h"

#include <ATen/Context.h>
#include <antegrad/error.h>

#include <algorithm>

#include "torch_compat/generator_state.h"

namespace antegrad::eager {

using torch_compat::put_back;
using torch_compat::same_state;
using torch_compat::set_state;
using torch_compat::state_of;

void RandomRecord::note(const at::Generator& generator) {
  const bool known = std::any_of(drawn_.begin(), drawn_.end(),
                                 [&](const Drawn& drawn) { return drawn.generator == generator; });
  if (!known) drawn_.push_back({generator, state_of(generator), {}});
}

void RandomRecord::note_default(c10::Device device) {
  if (device.is_cpu() || device.is_cuda()) note(at::globalContext().defaultGenerator(device));
}

void RandomRecord::finish() {
  // A generator without other owners was created by the block, which creates it again.
  std::erase_if(drawn_, [](const Drawn& drawn) {
    return drawn.generator.getIntrusivePtr().use_count() == 1;
  });
  for (auto& drawn : drawn_) drawn.after = state_of(drawn.generator);
  std::erase_if(drawn_, [](const Drawn& drawn) { return same_state(drawn.before, drawn.after); });
}

RandomReplay::RandomReplay(const RandomRecord& record) : record_(record) {
  for (const auto& drawn : record_.drawn_) present_.push_back(state_of(drawn.generator));
  for (const auto& drawn : record_.drawn_) set_state(drawn.generator, drawn.before);
}

RandomReplay::~RandomReplay() {
  for (size_t i = 0; i < present_.size(); ++i) put_back(record_.drawn_[i].generator, present_[i]);
}

void RandomReplay::check() const {
  for (const auto& drawn : record_.drawn_) {
    if (same_state(state_of(drawn.generator), drawn.after)) continue;
    throw BackwardError(ErrorText{"a recomputation that draws the random numbers of the forward",
                                  "a generator in another state after it than after the forward",
                                  "let the checkpointed block draw the same numbers each time it "
                                  "runs, and no other thread from "
                                  "the same generator while it does"});
  }
}

}  // namespace antegrad::eager
