#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <antegrad/process_group.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <utility>

#include "distributed/collectives.h"
#include "distributed/group_state.h"
#include "distributed/launch.h"
#include "torch_compat/gloo.h"
#include "torch_compat/nccl.h"

namespace antegrad {

namespace {

using distributed::Launch;
using Store = c10::intrusive_ptr<c10d::Store>;

/// Of the group of all processes, as torch.distributed calls it.
constexpr const char* kWorld = "antegrad_world";

Store connect(const Launch& launch, const GroupOptions& options, bool serves) {
  if (launch.size == 1) return c10::make_intrusive<c10d::HashStore>();
  c10d::TCPStoreOptions store;
  store.port = launch.port;
  store.isServer = serves;
  store.numWorkers = launch.size;
  store.waitWorkers = false;
  store.timeout = options.timeout;
  Store connected = c10::make_intrusive<c10d::TCPStore>(launch.host, store);
  if (launch.prefix.empty()) return connected;
  return c10::make_intrusive<c10d::PrefixStore>(launch.prefix, std::move(connected));
}

[[noreturn]] void cannot_join(const Launch& launch, const std::string& why) {
  throw DistributedError(
      {}, {fmt::format("{} ranks that meet at {}:{}", launch.size, launch.host, launch.port),
           fmt::format("that rank {} could not join ({}): {}", launch.rank, launch.launcher,
                       why.substr(0, why.find('\n'))),
           "start all of them with the same MASTER_ADDR and MASTER_PORT, and choose a free port"});
}

c10::intrusive_ptr<c10d::ProcessGroup> join(const std::string& name, const Store& store,
                                            int32_t rank, int32_t size,
                                            std::chrono::milliseconds timeout) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setGroupName(name);
  if (size == 1) return group;  // talks to nobody
  auto backend = torch_compat::gloo_backend(
      c10::make_intrusive<c10d::PrefixStore>("antegrad/gloo", store), rank, size, timeout);
  if (!backend) {
    throw InputError(ErrorText{"an antegrad that was built with Gloo's headers", "one without",
                               "install libgloo-dev and build it again, or make the group with "
                               "c10d and use ProcessGroup::of_c10d()"});
  }
  constexpr auto kGloo = c10d::ProcessGroup::BackendType::GLOO;
  group->setBackend(c10::DeviceType::CPU, kGloo, std::move(backend));
  group->setDefaultBackend(kGloo);
  if (auto gpus = torch_compat::nccl_backend(
          c10::make_intrusive<c10d::PrefixStore>("antegrad/nccl", store), rank, size, timeout)) {
    group->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL,
                      std::move(gpus));
  }
  return group;
}

}  // namespace

ProcessGroup ProcessGroup::of_environment(const GroupOptions& options) {
  const auto launch = distributed::read_launch();
  std::shared_ptr<State> state;
  try {
    State::Origin origin{connect(launch, options, launch.rank == 0 && !launch.served),
                         options.timeout};
    auto group = join(kWorld, origin.store, launch.rank, launch.size, options.timeout);
    if (launch.size > 1) {
      origin.heartbeat = std::make_shared<distributed::Heartbeat>(
          connect(launch, options, /*serves=*/false), launch.rank, launch.size,
          /*server=*/launch.served ? -1 : 0);
    }
    state = std::make_shared<State>(std::move(group), kWorld, std::move(origin));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    cannot_join(launch, error.what());
  }
  distributed::remember_group(state);
  // For functional collectives, which know groups by name.
  if (launch.size > 1) c10d::register_process_group(kWorld, state->group);
  return ProcessGroup(std::move(state));
}

ProcessGroup ProcessGroup::of_c10d(const std::string& name) {
  auto group = distributed::group_of_c10d(name);
  if (!group) {
    throw InputError(ErrorText{"the name of a group that c10d knows", "\"" + name + "\"",
                               "register it with c10d::register_process_group()"});
  }
  const auto devices = group->getDeviceTypes();
  if (group->getSize() > 1 && std::ranges::none_of(devices, &c10::Device::is_cpu)) {
    throw InputError(ErrorText{"a group through which ranks can compare their graphs, on the CPU",
                               "\"" + name + "\", which has no backend for it",
                               "make it with the backends \"cpu:gloo,cuda:nccl\""});
  }
  State::Origin origin;
  origin.local_rank = distributed::read_local_rank().value_or(group->getRank());
  auto state = std::make_shared<State>(std::move(group), name, std::move(origin));
  distributed::remember_group(state);
  return ProcessGroup(std::move(state));
}

int32_t ProcessGroup::rank() const { return state_->rank; }
int32_t ProcessGroup::size() const { return state_->size; }
int32_t ProcessGroup::local_rank() const { return state_->origin.local_rank; }
const std::string& ProcessGroup::name() const { return state_->name; }
GroupStats ProcessGroup::stats() const { return state_->stats(); }

ProcessGroup::Split ProcessGroup::split(int32_t size) const {
  const auto& origin = state_->origin;
  if (!origin.store) {
    throw InputError(ErrorText{"a group that antegrad made", "\"" + name() + "\" of c10d",
                               "split it with c10d, and give the parts to of_c10d()"});
  }
  if (size < 1 || this->size() % size != 0) {
    throw InputError(
        ErrorText{fmt::format("a size that divides the {} ranks of the group", this->size()),
                  fmt::format("{}", size), ""});
  }
  distributed::agree(*state_, fmt::format("split into subgroups of {}\n", size));
  const auto split = fmt::format("{}/split-{}", name(), state_->next_split());
  // Programs name groups, and are the same on all ranks: so a group is called like its neighbours.
  // Where they meet differs, also for groups that are split again.
  const auto subgroup = [&](const char* kind, int32_t number, int32_t count, auto rank_at) {
    const auto called = fmt::format("{}/{}", split, kind);
    State::Origin own{
        c10::make_intrusive<c10d::PrefixStore>(fmt::format("{}-{}", called, number), origin.store),
        origin.timeout, origin.heartbeat};
    own.local_rank = origin.local_rank;
    int32_t here = 0;
    for (int32_t i = 0; i < count; ++i) {
      own.ranks.push_back(state_->named(rank_at(i)));
      if (rank_at(i) == rank()) here = i;
    }
    std::shared_ptr<State> made;
    try {
      auto group = join(called, own.store, here, count, origin.timeout);
      made = std::make_shared<State>(std::move(group), called, std::move(own));
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      state_->fail("a split", error);
    }
    distributed::remember_group(made);
    return ProcessGroup(std::move(made));
  };
  const auto block = rank() / size, place = rank() % size;
  auto within = subgroup("within", block, size, [&](int32_t i) { return block * size + i; });
  auto across =
      subgroup("across", place, this->size() / size, [&](int32_t i) { return i * size + place; });
  return {std::move(within), std::move(across)};
}

double ProcessGroup::mean(double value) const {
  if (size() == 1) return value;
  auto sum = at::full({1}, value, at::kDouble);
  distributed::all_reduce(*state_, sum);
  return sum.item<double>() / size();
}

void ProcessGroup::barrier() const {
  if (size() == 1) return;
  auto none = at::zeros({1});
  distributed::all_reduce(*state_, none);
}

}  // namespace antegrad
