#include <ATen/core/grad_mode.h>
#include <antegrad/sharded_checkpoint.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "distributed/checkpoint_files.h"
#include "distributed/checkpoint_reader.h"
#include "distributed/collectives.h"
#include "distributed/optimizer_state.h"
#include "distributed/shard_unit.h"
#include "torch_compat/convert.h"

namespace antegrad {

namespace {

using namespace distributed;  // NOLINT(google-build-using-namespace)
using torch::optim::Optimizer;
using torch_compat::to_dtype;

constexpr const char* kParameter = "parameter";

// Runs `code` on each rank. If one fails, all throw an InputError that says which. Returns what the
// code returned on each rank of the group; first, what it did on rank 0 of the first replica.
std::vector<std::string> on_all_ranks(const Sharded& sharded,
                                      const std::function<std::string()>& code) {
  const auto& group = sharded.group();
  std::string mine;
  try {
    mine = "+" + code();
  } catch (const DistributedError&) {
    throw;
  } catch (const std::exception& error) {
    mine = std::string("-") + error.what();
  }
  auto texts = texts_of_all(*group.state(), mine);
  const auto failed = std::ranges::find(texts, '-', [](const auto& text) { return text.front(); });
  auto outcome = texts[0];
  if (failed != texts.end()) {
    const auto rank = static_cast<int32_t>(failed - texts.begin());
    const auto why = failed->substr(1);
    outcome =
        "-" +
        (group.size() == 1 ? why : fmt::format("on rank {}: {}", group.state()->named(rank), why));
  }
  if (sharded.replicas()) {
    const auto outcomes = texts_of_all(*sharded.replicas()->state(), outcome);
    const auto other =
        std::ranges::find(outcomes, '-', [](const auto& text) { return text.front(); });
    outcome = other == outcomes.end() ? outcomes[0] : *other;
  }
  if (outcome.front() == '-') throw InputError(outcome.substr(1));
  texts[0] = outcome;
  for (auto& text : texts) text.erase(0, 1);
  return texts;
}

std::string_view bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

// --- what a group has, as a checkpoint
// ------------------------------------------------------------

ParameterState* state_of(const Optimizer* optimizer, const at::Tensor& shard) {
  if (optimizer == nullptr) return nullptr;
  const auto known = optimizer->state().find(shard.unsafeGetTensorImpl());
  return known == optimizer->state().end() ? nullptr : known->second.get();
}

std::string checked_kind(const Optimizer* optimizer) {
  if (optimizer == nullptr) return "";
  auto kind = kind_of(*optimizer);
  if (kind.empty()) {
    throw InputError(ErrorText{"an SGD, Adam, AdamW, RMSprop or Adagrad",
                               "an optimizer of another class",
                               "save its state yourself, and pass none here"});
  }
  return kind;
}

// Without files.
Checkpoint describe(const Sharded& sharded, const Optimizer* optimizer, int64_t step) {
  Checkpoint checkpoint{.step = step, .optimizer = checked_kind(optimizer)};
  checkpoint.ranks = sharded.group().size();
  checkpoint.other_names = sharded.other_names();
  for (const auto& unit : sharded.units()) {
    Checkpoint::Unit described{.elements_here = unit->layout().elements_here};
    for (const auto& member : unit->layout().members) {
      described.members.push_back({member.name, member.sizes, member.offset});
    }
    described.parts.push_back({kParameter, to_dtype(unit->shard().scalar_type())});
    if (auto* const state = state_of(optimizer, unit->shard())) {
      const auto parts = parts_of(*state);
      for (const auto& [name, tensor] : parts.tensors) {
        if (tensor->defined()) described.parts.push_back({name, to_dtype(tensor->scalar_type())});
      }
      for (const auto& [name, value] : parts.numbers) described.numbers[name] = *value;
    }
    checkpoint.units.push_back(std::move(described));
  }
  for (const auto& [name, buffer] : sharded.buffers()) {
    checkpoint.buffers.push_back({name, to_dtype(buffer.scalar_type()), buffer.sizes().vec()});
  }
  return checkpoint;
}

std::string bytes_of_rank(const Sharded& sharded, const Optimizer* optimizer) {
  std::string bytes;
  const auto add = [&](const at::Tensor& tensor) {
    bytes += bytes_of(tensor.detach().cpu().contiguous());
  };
  for (const auto& unit : sharded.units()) {
    add(unit->shard());
    auto* const state = state_of(optimizer, unit->shard());
    if (state == nullptr) continue;
    for (const auto& [name, tensor] : parts_of(*state).tensors) {
      if (tensor->defined()) add(*tensor);
    }
  }
  return bytes;
}

std::string bytes_of_buffers(const Sharded& sharded) {
  std::string bytes;
  for (const auto& [name, buffer] : sharded.buffers()) {
    bytes += bytes_of(buffer.detach().cpu().contiguous());
  }
  return bytes;
}

// --- reading -------------------------------------------------------------------------------------

// What a checkpoint must have in common with what it is loaded into.
void check_same(const Checkpoint& saved, const Checkpoint& here) {
  const auto differ = [](const std::string& expected, const std::string& found) {
    throw InputError(ErrorText{expected, found, "load it into the model that it was saved from"});
  };
  if (saved.optimizer != here.optimizer && !here.optimizer.empty() && !saved.optimizer.empty()) {
    differ("a checkpoint of " + here.optimizer, "one of " + saved.optimizer);
  }
  if (saved.units.size() != here.units.size()) {
    differ(fmt::format("a checkpoint of {} units", here.units.size()),
           fmt::format("one of {}", saved.units.size()));
  }
  for (size_t u = 0; u < here.units.size(); ++u) {
    const auto &a = here.units[u], &b = saved.units[u];
    const auto text = [](const Checkpoint::Member& m) {
      return fmt::format("{} [{}]", m.name, fmt::join(m.sizes, ", "));
    };
    for (size_t i = 0; i < std::max(a.members.size(), b.members.size()); ++i) {
      const auto ours = i < a.members.size() ? text(a.members[i]) : "no further parameter";
      const auto theirs = i < b.members.size() ? text(b.members[i]) : "no further parameter";
      if (ours != theirs) differ("a checkpoint with " + ours, theirs);
    }
    if (a.parts[0] != b.parts[0]) {
      differ(fmt::format("parameters of {} ({})", name(a.parts[0].dtype), a.members[0].name),
             fmt::format("{}", name(b.parts[0].dtype)));
    }
  }
  if (saved.buffers != here.buffers) differ("a checkpoint of the same buffers", "one of others");
}

// A state of an optimizer with these tensors; null if there are none.
std::unique_ptr<ParameterState> loaded_state(const Optimizer& optimizer,
                                             const Checkpoint::Unit& unit,
                                             const std::vector<at::Tensor>& tensors,
                                             c10::Device device) {
  if (tensors.size() == 1 && unit.numbers.empty()) return nullptr;
  auto state = new_state(optimizer);
  const auto parts = parts_of(*state);
  for (size_t i = 1; i < tensors.size(); ++i) {
    const auto slot = std::ranges::find(parts.tensors, unit.parts[i].name,
                                        [](const auto& entry) { return entry.first; });
    if (slot == parts.tensors.end()) {
      throw InputError(
          ErrorText{"a state of " + kind_of(optimizer), "one with " + unit.parts[i].name, ""});
    }
    *slot->second = tensors[i].to(device);
  }
  for (const auto& [name, value] : parts.numbers) {
    const auto known = unit.numbers.find(name);
    if (known != unit.numbers.end()) *value = known->second;
  }
  return state;
}

}  // namespace

void save_checkpoint(const std::string& folder, const Sharded& sharded, const Optimizer* optimizer,
                     int64_t step) {
  const auto& group = sharded.group();
  const bool writes = !sharded.replicas() || sharded.replicas()->rank() == 0;  // one replica
  const bool first = writes && group.rank() == 0;
  const auto name =
      on_all_ranks(sharded, [&] { return first ? make_folder(folder, step) : std::string(); })[0];
  const auto made = (std::filesystem::path(folder) / name).string();
  const auto path = [&](const std::string& file) { return made + "/" + file; };
  bool is_current = false;
  try {
    auto checkpoint = describe(sharded, optimizer, step);
    const auto hashes = on_all_ranks(sharded, [&] {
      if (!writes) return std::string();
      const auto bytes = bytes_of_rank(sharded, optimizer);
      write_file(path(rank_file(group.rank())), bytes);
      const auto contents = contents_of(bytes);
      return fmt::format("{} {}", contents.bytes, contents.hash);
    });
    on_all_ranks(sharded, [&] {
      if (!first) return std::string();
      for (int32_t rank = 0; rank < group.size(); ++rank) {
        const auto space = hashes[rank].find(' ');
        checkpoint.files[rank_file(rank)] = {std::stoll(hashes[rank].substr(0, space)),
                                             hashes[rank].substr(space + 1)};
      }
      const auto buffers = bytes_of_buffers(sharded);
      write_file(path(kBuffersFile), buffers);
      checkpoint.files[kBuffersFile] = contents_of(buffers);
      write_file(path("manifest.json"), to_json(checkpoint));
      make_current(folder, name);
      is_current = true;
      return std::string();
    });
  } catch (...) {
    if (first && !is_current) remove_folder(made);
    throw;
  }
}

int64_t load_checkpoint(const std::string& folder, const Sharded& sharded, Optimizer* optimizer) {
  const at::NoGradGuard no_grad;
  const auto& group = sharded.group();
  // Rank 0's look at it counts, in case it is being replaced.
  const auto current = on_all_ranks(
      sharded, [&] { return group.rank() == 0 ? current_folder(folder) : std::string(); })[0];
  if (current.empty()) return -1;

  Checkpoint saved;
  std::vector<std::vector<at::Tensor>> parts;
  std::vector<at::Tensor> buffers;
  std::vector<std::unique_ptr<ParameterState>> states;
  on_all_ranks(sharded, [&] {
    saved = read_checkpoint(current);
    check_same(saved, describe(sharded, optimizer, 0));
    std::vector<int64_t> begins, elements;
    for (const auto& unit : sharded.units()) {
      begins.push_back(group.rank() * unit->layout().elements_here);
      elements.push_back(unit->layout().elements_here);
    }
    const CheckpointReader reader(current, saved);
    parts = reader.parts(begins, elements);
    buffers = reader.buffers();
    for (size_t u = 0; u < parts.size() && optimizer != nullptr; ++u) {
      states.push_back(
          loaded_state(*optimizer, saved.units[u], parts[u], sharded.units()[u]->shard().device()));
    }
    return std::string();
  });

  for (size_t u = 0; u < parts.size(); ++u) {
    const auto& shard = sharded.units()[u]->shard();
    shard.detach().copy_(parts[u][0]);
    if (optimizer == nullptr) continue;
    auto& known = optimizer->state();
    known.erase(shard.unsafeGetTensorImpl());
    if (states[u]) known[shard.unsafeGetTensorImpl()] = std::move(states[u]);
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    sharded.buffers()[i].second.detach().copy_(buffers[i]);
  }
  return saved.step;
}

}  // namespace antegrad
