// ag::checkpoint inside a callable: a tag on recorded nodes.

#include <antegrad/checkpoint.h>

#include "capture/tracer.h"

namespace antegrad::detail {

CapturedBlock::CapturedBlock(const CheckpointOptions& options) {
  auto* tracer = capture::Tracer::current();
  if (tracer == nullptr || tracer->phase != Phase::forward) return;
  auto& blocks = tracer->graph.blocks;
  blocks.push_back(tracer->block.number);
  around_ = tracer->block.number;
  policy_around_ = tracer->block.policy;
  tracer->block = {static_cast<int32_t>(blocks.size()) - 1, &options.policy};
  tracer_ = tracer;
}

CapturedBlock::~CapturedBlock() {
  if (tracer_ == nullptr) return;
  static_cast<capture::Tracer*>(tracer_)->block = {around_, policy_around_};
}

}  // namespace antegrad::detail
