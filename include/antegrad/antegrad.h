#pragma once

/// \file
/// antegrad: ahead-of-time autograd for libtorch. Includes all public headers, but not
/// torch/torch.h.

#include <antegrad/accumulation.h>
#include <antegrad/backward_state.h>
#include <antegrad/batch_norm.h>
#include <antegrad/bundle.h>
#include <antegrad/checkpoint.h>
#include <antegrad/compile.h>
#include <antegrad/compile_step.h>
#include <antegrad/compiled_backward.h>
#include <antegrad/config.h>
#include <antegrad/dynamic.h>
#include <antegrad/error.h>
#include <antegrad/inside.h>
#include <antegrad/logs.h>
#include <antegrad/memory.h>
#include <antegrad/options.h>
#include <antegrad/passes.h>
#include <antegrad/process_group.h>
#include <antegrad/remote_cache.h>
#include <antegrad/replication.h>
#include <antegrad/report.h>
#include <antegrad/resize_storage.h>
#include <antegrad/saved_tensors.h>
#include <antegrad/sharded_checkpoint.h>
#include <antegrad/sharding.h>
#include <antegrad/tree.h>
