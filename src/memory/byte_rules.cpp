#include "memory/byte_rules.h"

namespace antegrad {
namespace {

constexpr int64_t kGranules[] = {/*cpu*/ 64, /*cuda*/ 512, /*meta*/ 0, /*other*/ 64};

}  // namespace

int64_t storage_bytes(const TensorMeta& meta, const ByteRules& rules) {
  const int64_t by_device = kGranules[static_cast<size_t>(meta.device.kind)];
  if (by_device == 0) return 0;
  const int64_t span = span_bytes(meta).evaluate(rules.symbols);
  if (span == 0) return 0;
  const int64_t granule = rules.granule > 0 ? rules.granule : by_device;
  const int64_t bytes = span + meta.offset.evaluate(rules.symbols) * byte_size(meta.dtype);
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace antegrad
