#include "distributed/group_state.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include <utility>

#include "distributed/by_name.h"

namespace antegrad {

namespace {

/// How long ranks may take to report the failure that others have seen.
constexpr std::chrono::milliseconds kPatience{5000};

std::string text_of(const std::exception& error) {
  const auto* c10 = dynamic_cast<const c10::Error*>(&error);
  return c10 == nullptr ? error.what() : c10->what_without_backtrace();
}

}  // namespace

ProcessGroup::State::State(c10::intrusive_ptr<c10d::ProcessGroup> c10d_group,
                           std::string group_name, Origin group_origin)
    : group(std::move(c10d_group)),
      name(std::move(group_name)),
      rank(group->getRank()),
      size(group->getSize()),
      origin(std::move(group_origin)) {}

auto ProcessGroup::State::start(const char* what, int64_t bytes, c10::DeviceType device,
                                const std::function<Works(c10d::Backend&)>& begin) -> Works {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) {
      throw DistributedError(at_fault_, {fmt::format("a group in which {} can run", what),
                                         fmt::format("one that failed before: {}", failure_),
                                         "start the processes again"});
    }
  }
  collectives_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  try {
    return begin(*group->getBackend(device));
  } catch (const std::exception& error) {
    fail(what, error);
  }
}

void ProcessGroup::State::wait(const char* what, const Works& works) {
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& part : works) {
    try {
      part.work->wait();
    } catch (const std::exception& error) {
      fail(what, error, part.peer);
    }
  }
  waited_.fetch_add((std::chrono::steady_clock::now() - begin) / std::chrono::nanoseconds(1),
                    std::memory_order_relaxed);
}

void ProcessGroup::State::fail(const char* what, const std::exception& error, int32_t peer) {
  const auto why = text_of(error);
  auto fault = origin.heartbeat ? origin.heartbeat->find_fault(kPatience) : distributed::Fault();
  // All live and reach the store, so the network is cut between these two.
  if (fault.ranks.empty() && fault.found.empty() && peer >= 0) {
    fault = {{named(peer)}, fmt::format("rank {} waited for it", named(rank))};
  }
  const auto& ranks = fault.ranks;
  const auto who =
      ranks.empty() ? std::string("a rank")
                    : fmt::format("rank{} {}", ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "));
  const auto found =
      fmt::format("that {} did not{}{} (rank {} saw: {})", who, fault.found.empty() ? "" : ": ",
                  fault.found, named(rank), why.substr(0, why.find('\n')));
  {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) {
      failure_ = found;
      at_fault_ = ranks;
    }
  }
  throw DistributedError(
      ranks,
      {fmt::format("all {} ranks of group \"{}\" to take part in {}", size, name, what), found,
       "look at what that rank printed, and at the network; start all of them again, from "
       "the last checkpoint"});
}

GroupStats ProcessGroup::State::stats() const {
  return {collectives_.load(), bytes_.load(), static_cast<double>(waited_.load()) * 1e-6};
}

namespace distributed {

using Groups = ByName<GroupState>;

namespace {

/// Groups that only c10d knows: nobody else keeps what is here about them.
struct GroupsOfC10d {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<GroupState>> by_name;

  static GroupsOfC10d& of_process() {
    static auto* const groups = new GroupsOfC10d();
    return *groups;
  }
};

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> group_of_c10d(const std::string& name) {
  try {
    return c10d::resolve_process_group(name);
  } catch (const std::exception&) {
    return {};
  }
}

std::shared_ptr<GroupState> find_group(const std::string& name) {
  if (auto state = Groups::of_process().find(name)) return state;
  auto& others = GroupsOfC10d::of_process();
  const std::lock_guard lock(others.mutex);
  if (auto group = group_of_c10d(name)) {
    auto& state = others.by_name[name];
    if (!state || state->group != group) {
      state = std::make_shared<GroupState>(std::move(group), name, GroupState::Origin{});
    }
    return state;
  }
  others.by_name.erase(name);
  throw DistributedError({}, {"the group \"" + name + "\" of the program",
                              "that this process has none of this name, or no longer",
                              "keep the ProcessGroup, or what was sharded over it"});
}

void remember_group(const std::shared_ptr<GroupState>& state) {
  Groups::of_process().remember(state->name, state);
}

}  // namespace distributed
}  // namespace antegrad
