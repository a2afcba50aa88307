// A checkpoint as one file of the whole module.

#include <antegrad/error.h>
#include <antegrad/sharded_checkpoint.h>
#include <torch/serialize/output-archive.h>

#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "distributed/checkpoint_reader.h"
#include "distributed/layout.h"

namespace antegrad {

using distributed::CheckpointReader;
using distributed::current_folder;
using distributed::read_checkpoint;

namespace {

// The tensors of a module and of those in it, by the first word of their names.
void write_module(torch::serialize::OutputArchive& archive,
                  const std::map<std::string, std::pair<at::Tensor, bool>>& tensors) {
  std::map<std::string, std::map<std::string, std::pair<at::Tensor, bool>>> children;
  for (const auto& [name, tensor] : tensors) {
    const auto dot = name.find('.');
    if (dot == std::string::npos) {
      archive.write(name, tensor.first, /*is_buffer=*/tensor.second);
    } else {
      children[name.substr(0, dot)].emplace(name.substr(dot + 1), tensor);
    }
  }
  for (const auto& [name, child] : children) {
    torch::serialize::OutputArchive inner(archive.compilation_unit());
    write_module(inner, child);
    archive.write(name, inner);
  }
}

}  // namespace

void export_checkpoint(const std::string& folder, const std::string& file) {
  const auto current = current_folder(folder);
  if (current.empty()) {
    throw InputError(
        ErrorText{"a folder with a checkpoint", folder, "save_checkpoint() writes one"});
  }
  const auto checkpoint = read_checkpoint(current);
  const CheckpointReader reader(current, checkpoint);
  std::vector<int64_t> begins(checkpoint.units.size(), 0), elements;
  for (const auto& unit : checkpoint.units) {
    elements.push_back(unit.elements_here * checkpoint.ranks);
  }
  const auto parts = reader.parts(begins, elements);
  std::map<std::string, std::pair<at::Tensor, bool>> tensors;
  for (size_t u = 0; u < parts.size(); ++u) {
    for (const auto& member : checkpoint.units[u].members) {
      int64_t count = 1;
      for (const int64_t size : member.sizes) count *= size;
      tensors[member.name] = {
          parts[u][0].narrow(0, member.offset, count).view(member.sizes).clone(), false};
    }
  }
  const auto buffers = reader.buffers();
  for (size_t i = 0; i < buffers.size(); ++i) {
    tensors[checkpoint.buffers[i].name] = {buffers[i], true};
  }
  for (const auto& [name, first] : checkpoint.other_names) tensors[name] = tensors.at(first);
  torch::serialize::OutputArchive archive;
  write_module(archive, tensors);
  try {
    archive.save_to(file);
  } catch (const std::exception& error) {
    throw InputError(ErrorText{"a file that can be written", file + ": " + error.what(), ""});
  }
}

}  // namespace antegrad
