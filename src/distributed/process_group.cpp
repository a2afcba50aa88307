#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <antegrad/process_group.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <utility>

#include "distributed/collectives.h"
#include "distributed/group_state.h"
#include "distributed/launch.h"
#include "torch_compat/gloo.h"

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

c10::intrusive_ptr<c10d::ProcessGroup> join(const Launch& launch, const Store& store,
                                            const GroupOptions& options) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, launch.rank, launch.size);
  group->setGroupName(kWorld);
  if (launch.size == 1) return group;  // talks to nobody
  auto backend =
      torch_compat::gloo_backend(c10::make_intrusive<c10d::PrefixStore>("antegrad/gloo", store),
                                 launch.rank, launch.size, options.timeout);
  if (!backend) {
    throw InputError(ErrorText{"an antegrad that was built with Gloo's headers", "one without",
                               "install libgloo-dev and build it again, or make the group with "
                               "c10d and use ProcessGroup::of_c10d()"});
  }
  constexpr auto kGloo = c10d::ProcessGroup::BackendType::GLOO;
  group->setBackend(c10::DeviceType::CPU, kGloo, std::move(backend));
  group->setDefaultBackend(kGloo);
  return group;
}

}  // namespace

ProcessGroup ProcessGroup::of_environment(const GroupOptions& options) {
  const auto launch = distributed::read_launch();
  std::shared_ptr<State> state;
  try {
    const auto store = connect(launch, options, launch.rank == 0 && !launch.served);
    auto group = join(launch, store, options);
    auto heartbeat = launch.size == 1
                         ? nullptr
                         : std::make_unique<distributed::Heartbeat>(
                               connect(launch, options, /*serves=*/false), launch.rank, launch.size,
                               /*server=*/launch.served ? -1 : 0);
    state = std::make_shared<State>(std::move(group), kWorld, std::move(heartbeat));
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
  auto state = std::make_shared<State>(std::move(group), name, nullptr);
  distributed::remember_group(state);
  return ProcessGroup(std::move(state));
}

int32_t ProcessGroup::rank() const { return state_->rank; }
int32_t ProcessGroup::size() const { return state_->size; }
const std::string& ProcessGroup::name() const { return state_->name; }
GroupStats ProcessGroup::stats() const { return state_->stats(); }

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
