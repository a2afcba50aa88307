#pragma once

/// \file
/// Checkpoints of sharded training: each rank writes its part (docs/distributed.md#checkpoints).

#include <antegrad/sharding.h>

#include <cstdint>
#include <string>

namespace torch::optim {
class Optimizer;
}

namespace antegrad {

/// Writes parameters, buffers, the state of the optimizer and `step` to a folder that all ranks
/// see, which is made if it is not there. A checkpoint in it stays whole until the new one is; then
/// it is removed. A collective.
///
/// `optimizer` is a torch::optim::SGD, Adam, AdamW, RMSprop or Adagrad of sharded.parameters(), or
/// null. Generators are not saved: seed them by step and rank. Throws InputError if the files
/// cannot be written, DistributedError if a rank is gone.
void save_checkpoint(const std::string& folder, const Sharded& sharded,
                     const torch::optim::Optimizer* optimizer, int64_t step);

/// Reads it again, on any number of ranks, and returns its step; -1 if the folder has none. All
/// ranks need all files. A collective. Throws InputError, with everything unchanged, for damaged
/// files, and for a checkpoint of other parameters, dtypes or another optimizer.
int64_t load_checkpoint(const std::string& folder, const Sharded& sharded,
                        torch::optim::Optimizer* optimizer);

/// Writes the parameters and buffers of a checkpoint as torch::save() would those of the whole
/// module: torch::load() reads the file into a module of the same structure. No collective: one
/// process calls it, with any group or none. Throws InputError.
void export_checkpoint(const std::string& folder, const std::string& file);

}  // namespace antegrad
