#include "memory/byte_rules.h"

namespace antegrad {
namespace {

constexpr int64_t kGranules[] = {/*cpu*/ 64, /*cuda*/ 512, /*meta*/ 0, /*other*/ 64};

int64_t rounded(int64_t bytes, DeviceKind device, const ByteRules& rules) {
  const int64_t granule =
      rules.granule > 0 ? rules.granule : kGranules[static_cast<size_t>(device)];
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace

int64_t storage_bytes(const TensorMeta& meta, const ByteRules& rules) {
  if (kGranules[static_cast<size_t>(meta.device.kind)] == 0) return 0;
  const int64_t span = span_bytes(meta).evaluate(rules.symbols);
  if (span == 0) return 0;
  const int64_t bytes = span + meta.offset.evaluate(rules.symbols) * byte_size(meta.dtype);
  return rounded(bytes, meta.device.kind, rules);
}

int64_t state_bytes(std::string_view generator, const ByteRules& rules) {
  return rounded(generator_state_bytes(generator), DeviceKind::cpu, rules);
}

int64_t scratch_bytes(int32_t node_id, const ByteRules& rules) {
  const auto index = static_cast<size_t>(node_id);
  return node_id >= 0 && index < rules.scratch.size() ? rules.scratch[index] : 0;
}

}  // namespace antegrad
