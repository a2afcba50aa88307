#include "torch_compat/current_stream.h"

namespace antegrad::torch_compat {

void* current_stream(c10::Device /*device*/) { return nullptr; }

}  // namespace antegrad::torch_compat
