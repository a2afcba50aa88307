#include "torch_compat/cpu_engine.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <mutex>

namespace antegrad::torch_compat {

void draw_from_engine(at::Generator generator, const std::function<void(Mt19937&)>& draw) {
  static_assert(at::MERSENNE_STATE_N == kMt19937Words);
  const std::lock_guard lock(generator.mutex());
  auto* impl = at::check_generator<at::CPUGeneratorImpl>(generator);
  auto engine = impl->engine();
  auto data = engine.data();
  Mt19937 state;
  std::ranges::copy(data.state_, state.words);
  state.left = data.left_;
  state.next = static_cast<int32_t>(data.next_);
  draw(state);
  std::ranges::copy(state.words, data.state_.begin());
  data.left_ = state.left;
  data.next_ = static_cast<uint32_t>(state.next);
  engine.set_data(data);
  impl->set_engine(engine);
}

}  // namespace antegrad::torch_compat
