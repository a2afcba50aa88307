#include "runtime/undeclared_alias.h"

#include <ATen/ops/empty_strided.h>
#include <antegrad/error.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "log/log.h"
#include "ops/tensors_in.h"

namespace antegrad::runtime {
namespace {

// Namespaces of libtorch and antegrad, whose operators share memory only on purpose.
constexpr std::string_view kTrusted[] = {"antegrad::", "_c10d_functional::", "c10d::", "onednn::"};

// A copy with the same sizes and strides.
at::Tensor copy_of(const at::Tensor& tensor) {
  auto once = tensor;  // without repeated elements
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.stride(d) == 0 && tensor.size(d) > 1) once = once.narrow(d, 0, 1);
  }
  const auto copy = at::empty_strided(once.sizes(), once.strides(), once.options()).copy_(once);
  return copy.as_strided(tensor.sizes(), tensor.strides(), 0);
}

void report(const ops::OpEntry& entry, AliasCheck check, int32_t argument) {
  const auto& arguments = entry.handle.schema().arguments();
  const CaptureError error(
      entry.op.name(),
      {"results with memory of their own from a custom operator whose schema declares no alias",
       "one that shares memory with " + (argument < 0
                                             ? "another result or an argument that is written"
                                             : "the argument '" + arguments[argument].name() + "'"),
       "return a clone() of it; if it is an argument that the operator writes, declare that: "
       "Tensor(a!) x -> Tensor(a!)"});
  if (check == AliasCheck::error) throw error;
  static std::mutex mutex;
  static auto* warned = new std::unordered_set<const ops::OpEntry*>();
  const std::lock_guard lock(mutex);
  if (!warned->insert(&entry).second) return;
  log(
      Log::ops,
      [&] {
        return error.what() +
               std::string(
                   "\nPrograms use a copy, so a later write to one does not show in the "
                   "other. error_on_custom_op_aliasing makes this an error");
      },
      LogLevel::warning);
}

}  // namespace

AliasCheck alias_check_for(const ops::OpEntry& entry, AliasCheck wanted) {
  const std::string_view name = entry.handle.operator_name().name;
  const auto& returns = entry.handle.schema().returns();
  const bool trusted = std::any_of(std::begin(kTrusted), std::end(kTrusted),
                                   [&](auto prefix) { return name.starts_with(prefix); });
  // A twin never returns a tensor that the schema declares to be an argument.
  const bool declared = !entry.is_twin && std::any_of(returns.begin(), returns.end(), [](auto& r) {
    return r.alias_info() != nullptr;
  });
  return entry.custom && !trusted && !declared ? wanted : AliasCheck::off;
}

SeenMemory memory_of_arguments(const torch::jit::Stack& stack) {
  SeenMemory seen;
  for (size_t i = 0; i < stack.size(); ++i) {
    ops::for_each_tensor(stack[i], [&](const at::Tensor& t) {
      if (t.defined() && t.has_storage()) seen.emplace_back(t.storage(), static_cast<int32_t>(i));
    });
  }
  return seen;
}

void check_aliases(const ops::OpEntry& entry, AliasCheck check, SeenMemory seen,
                   torch::jit::Stack& stack) {
  const auto checked = [&](const at::Tensor& result) {
    if (!result.has_storage()) return result;
    const auto found = std::find_if(seen.begin(), seen.end(), [&](const auto& memory) {
      return memory.first.is_alias_of(result.storage());
    });
    if (found == seen.end()) {
      seen.emplace_back(result.storage(), -1);
      return result;
    }
    report(entry, check, found->second);
    return copy_of(result);
  };
  for (auto& value : stack) value = ops::map_tensors(value, checked);
}

}  // namespace antegrad::runtime
