#include <antegrad/error.h>
#include <antegrad/saved_tensors.h>

#include <atomic>

namespace antegrad {
namespace {

thread_local std::shared_ptr<const detail::HookPair> innermost;

}  // namespace

namespace detail {

std::string next_hook_key() {
  static std::atomic<int64_t> next{1};
  return "#" + std::to_string(next++);
}

std::string hook_key_of_types(const std::type_info& pack, const std::type_info& unpack) {
  std::string key = pack.name();
  key += ',';
  key += unpack.name();
  return key;
}

void refuse_object(const HookOptions& options) {
  throw OptionError(ErrorText{
      "hooks that pack into tensors, numbers, strings and structures of those (antegrad/tree.h)",
      "'" + options.name + "', which pack into an object",
      "run them eagerly: HookOptions{.inlineable = false}"});
}

const std::shared_ptr<const HookPair>& current_hooks() { return innermost; }

}  // namespace detail

SavedTensorHooks::SavedTensorHooks(const Hooks& hooks)
    : outer_(std::exchange(innermost, hooks.pair())) {}

SavedTensorHooks::~SavedTensorHooks() { innermost = std::move(outer_); }

}  // namespace antegrad
