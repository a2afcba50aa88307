#include "common/gpt12.h"

#include <ATen/ops/randint.h>

namespace antegrad::bench {

Tokens random_tokens(const examples::GptConfig& config, int64_t batch) {
  const auto tokens = [&] {
    return at::randint(config.vocabulary, {batch, config.context}, at::kLong);
  };
  auto inputs = tokens();
  return {std::move(inputs), tokens()};
}

}  // namespace antegrad::bench
