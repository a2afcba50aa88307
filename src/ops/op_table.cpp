#include "ops/op_table.h"

#include <ATen/core/enum_tag.h>
#include <ATen/core/function_schema.h>
#include <antegrad/error.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "torch_compat/convert.h"
#include "torch_compat/keys.h"

namespace antegrad::ops {
namespace {

using c10::TypeKind;

ArgKind kind_of(c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::OptionalType:
      return kind_of(*type.castRaw<c10::OptionalType>()->getElementType());
    case TypeKind::TensorType: return ArgKind::tensor;
    case TypeKind::IntType:
    case TypeKind::SymIntType: return ArgKind::integer;
    case TypeKind::FloatType:
    case TypeKind::SymFloatType: return ArgKind::floating;
    case TypeKind::BoolType:
    case TypeKind::SymBoolType: return ArgKind::boolean;
    case TypeKind::NumberType: return ArgKind::scalar;
    case TypeKind::ScalarTypeType: return ArgKind::dtype;
    case TypeKind::LayoutType: return ArgKind::layout;
    case TypeKind::MemoryFormatType: return ArgKind::memory_format;
    case TypeKind::DeviceObjType: return ArgKind::device;
    case TypeKind::StringType: return ArgKind::string;
    case TypeKind::GeneratorType: return ArgKind::generator;
    case TypeKind::ListType: {
      auto& element = *type.castRaw<c10::ListType>()->getElementType();
      if (element.kind() == TypeKind::OptionalType) {
        return kind_of(element) == ArgKind::tensor ? ArgKind::optional_tensors : ArgKind::other;
      }
      switch (kind_of(element)) {
        case ArgKind::tensor: return ArgKind::tensors;
        case ArgKind::integer: return ArgKind::integers;
        case ArgKind::floating: return ArgKind::floats;
        case ArgKind::boolean: return ArgKind::booleans;
        case ArgKind::string: return ArgKind::strings;
        case ArgKind::scalar: return ArgKind::scalars;
        default: return ArgKind::other;
      }
    }
    default: return ArgKind::other;
  }
}

// Positions of the running statistics of operators that hide writes (all have the same arguments).
constexpr size_t kStatistics[] = {3, 4};
constexpr size_t kTraining = 5;

// Namespaces whose operators libtorch functionalises itself.
constexpr std::string_view kBuiltIn[] = {"aten::", "prim::", "prims::"};

// Namespace prefix of twins in graphs: "functional__mylib::scale_.default".
constexpr std::string_view kTwinPrefix = "functional__";

bool is_built_in(std::string_view name) {
  return std::any_of(std::begin(kBuiltIn), std::end(kBuiltIn),
                     [&](auto prefix) { return name.starts_with(prefix); });
}

bool is_tensor_kind(ArgKind kind) { return kind <= ArgKind::optional_tensors; }

// The operators that users declared with antegrad::declare_effects, and those already described.
class EffectNames {
 public:
  static EffectNames& instance() {
    static auto* names = new EffectNames();
    return *names;
  }
  bool declare(const std::string& base_name) {
    const std::lock_guard lock(mutex_);
    if (declared_.contains(base_name)) return true;
    if (described_.contains(base_name)) return false;
    declared_.insert(base_name);
    return true;
  }
  // Queried once per overload, when it is described.
  bool has_effects(const c10::OperatorHandle& handle) {
    const auto& schema = handle.schema();
    bool acts = schema.returns().empty();
    for (const auto& arg : schema.arguments()) {
      acts &= arg.alias_info() == nullptr || !arg.alias_info()->isWrite();
    }
    const std::lock_guard lock(mutex_);
    const auto& name = handle.operator_name().name;
    if (acts) return true;
    described_.insert(name);
    return declared_.contains(name);
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::string> declared_;
  std::unordered_set<std::string> described_;
};

bool returns_host_values(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return !std::all_of(returns.begin(), returns.end(), [](const c10::Argument& ret) {
    return is_tensor_kind(kind_of(*ret.real_type()));
  });
}

bool hides_mutation(const c10::OperatorName& name) {
  return name.overload_name.empty() && builtin_traits(name.name).hides_writes;
}

Policy policy_of(const c10::OperatorHandle& handle) {
  const auto& name = handle.operator_name().name;
  if (hides_mutation(handle.operator_name())) return Policy::hidden_mutation;
  if (handle.hasTag(at::Tag::data_dependent_output) || returns_host_values(handle.schema())) {
    return Policy::data_dependent;
  }
  if (handle.hasTag(at::Tag::dynamic_output_shape)) return Policy::dynamic_outputs;
  if (is_built_in(name) || handle.hasKernelForDispatchKey(c10::DispatchKey::Functionalize)) {
    return Policy::record;
  }
  for (const auto& ret : handle.schema().returns()) {
    if (ret.alias_info() != nullptr && !ret.alias_info()->isWrite()) return Policy::unknown_alias;
  }
  return Policy::record;
}

// Traits of operators outside the built-in table, derived from the dispatcher.
OpTraits traits_of(const c10::OperatorHandle& handle) {
  OpTraits traits;
  traits.known = true;
  traits.pointwise = handle.hasTag(at::Tag::pointwise);
  traits.random = handle.hasTag(at::Tag::nondeterministic_seeded);
  traits.deterministic = !traits.random;
  const auto& schema = handle.schema();
  bool aliases = false;
  bool takes_tensor = false;
  for (const auto& arg : schema.arguments()) {
    const auto* info = arg.alias_info();
    if (info != nullptr) (info->isWrite() ? traits.mutates : aliases) = true;
    takes_tensor |= is_tensor_kind(kind_of(*arg.real_type()));
  }
  traits.effect = EffectNames::instance().has_effects(handle);
  traits.view = aliases && !traits.mutates;
  traits.factory = !takes_tensor;
  return traits;
}

// Fills `writes` and `returned_arg` from the schema. False if a return aliases no argument.
bool read_writes(OpEntry& entry) {
  const auto& schema = entry.handle.schema();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* info = schema.arguments()[i].alias_info();
    if (info != nullptr && info->isWrite()) entry.writes.push_back(i);
  }
  for (const auto& ret : schema.returns()) {
    int found = -1;
    if (const auto* info = ret.alias_info()) {
      for (const auto i : entry.writes) {
        if (schema.arguments()[i].alias_info()->beforeSets() == info->beforeSets()) {
          found = static_cast<int>(i);
        }
      }
      if (found < 0) return false;
    }
    entry.returned_arg.push_back(found);
  }
  return true;
}

std::shared_ptr<const OpEntry> make_twin(const OpEntry& entry) {
  auto twin = std::make_shared<OpEntry>(entry);
  twin->is_twin = true;
  OpInfo info;
  info.name = std::string(kTwinPrefix) + entry.op.name();
  info.base_name = std::string(kTwinPrefix) + entry.op.info().base_name;
  info.traits = entry.op.traits();
  info.traits.known = true;
  info.traits.mutates = false;
  info.traits.pointwise = false;  // no pass has a functional kernel for it
  info.traits.view = false;
  info.arg_names = entry.op.info().arg_names;
  twin->op = Op::declare(std::move(info));
  return twin;
}

// Whether libtorch's functionalisation would refuse the operator or miss its writes.
bool needs_twin(const OpEntry& entry) {
  if (entry.policy == Policy::hidden_mutation) return true;
  return entry.policy == Policy::record && entry.handle.schema().hasAnyAliasInfo() &&
         !entry.composite && entry.custom && !torch_compat::functionalizes_itself(entry.handle);
}

// Operators of libtorch that overwrite a tensor with random numbers. Their functional forms fill a
// contiguous tensor, in another order than a tensor with other strides.
bool fills_at_random(const OpEntry& entry) {
  return entry.random && !entry.custom && !entry.composite &&
         entry.writes == std::vector<size_t>{0} && entry.returned_arg == std::vector<int>{0};
}

bool has_autograd_kernel(const c10::OperatorHandle& handle) {
  constexpr c10::DispatchKey keys[] = {c10::DispatchKey::Autograd, c10::DispatchKey::AutogradCPU,
                                       c10::DispatchKey::AutogradCUDA};
  return std::any_of(std::begin(keys), std::end(keys),
                     [&](c10::DispatchKey key) { return handle.hasKernelForDispatchKey(key); });
}

std::unique_ptr<OpEntry> describe(const c10::OperatorHandle& handle) {
  auto entry = std::make_unique<OpEntry>(handle);
  const auto& schema = handle.schema();
  const auto& name = handle.operator_name();
  OpInfo info;
  info.name = torch_compat::to_op_name(name);
  info.base_name = name.name;
  info.traits = traits_of(handle);
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& arg = schema.arguments()[i];
    entry->args.push_back(kind_of(*arg.real_type()));
    entry->optional.push_back(arg.real_type()->kind() == TypeKind::OptionalType);
    info.arg_names.push_back(arg.name());
    if (entry->args.back() == ArgKind::generator) entry->generator_arg = static_cast<int>(i);
    if (entry->args.back() == ArgKind::device) entry->device_arg = static_cast<int>(i);
  }
  entry->op = Op::declare(std::move(info));
  const auto& overload = name.overload_name;
  entry->shape = shapes::find(overload.empty() ? name.name : name.name + "." + overload);
  entry->policy = policy_of(handle);
  entry->composite = handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  // A kernel for all backends would perform its effect when only shapes are requested.
  const bool acts = entry->op.traits().effect;
  entry->meta_kernel =
      !entry->op.traits().wrong_meta &&
      (handle.hasKernelForDispatchKey(c10::DispatchKey::Meta) ||
       (!acts && (handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
                  handle.hasKernelForDispatchKey(
                      c10::DispatchKey::CompositeExplicitAutogradNonFunctional))));
  entry->random = entry->op.traits().random || handle.hasTag(at::Tag::nondeterministic_seeded);
  entry->custom = !is_built_in(name.name);
  entry->undeclared_derivative = entry->custom && !entry->composite && !schema.returns().empty() &&
                                 !has_autograd_kernel(handle);
  const bool known_aliases = read_writes(*entry);
  if (needs_twin(*entry)) {
    if (known_aliases) {
      entry->twin = make_twin(*entry);
    } else {
      entry->policy = Policy::unknown_alias;
    }
    entry->own_functionalize = true;
  } else if (fills_at_random(*entry)) {
    entry->twin = make_twin(*entry);
  }
  if (const std::string kernel(entry->op.info().row->kernel); !kernel.empty() && overload.empty()) {
    entry->handle = c10::Dispatcher::singleton().findSchemaOrThrow(kernel.c_str(), "");
  }
  return entry;
}

class Table {
 public:
  static Table& instance() {
    static auto* table = new Table();  // immortal: programs run during static destruction
    return *table;
  }

  const OpEntry& of(const c10::OperatorHandle& handle) {
    const void* key = &handle.operator_name();
    {
      const std::shared_lock lock(mutex_);
      if (const auto it = by_handle_.find(key); it != by_handle_.end()) return *it->second;
    }
    auto made = describe(handle);
    const std::unique_lock lock(mutex_);
    return *by_handle_.emplace(key, std::move(made)).first->second;
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<const void*, std::unique_ptr<OpEntry>> by_handle_;
};

}  // namespace

const OpEntry& entry_of(const c10::OperatorHandle& handle) { return Table::instance().of(handle); }

bool declare_effects(const std::string& base_name) {
  return EffectNames::instance().declare(base_name);
}

bool needs_functionalize(const c10::OperatorHandle& handle) {
  const auto& name = handle.operator_name();
  if (hides_mutation(name)) return true;
  return !is_built_in(name.name) && handle.hasSchema() && handle.schema().hasAnyAliasInfo() &&
         !handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !torch_compat::functionalizes_itself(handle);
}

std::vector<size_t> written_arguments(const OpEntry& entry, at::ArrayRef<c10::IValue> args) {
  const bool hidden = entry.policy == Policy::hidden_mutation;
  if (hidden && !args[kTraining].toBool()) return {};
  std::vector<size_t> written;
  for (const auto i : hidden ? std::span<const size_t>(kStatistics) : std::span(entry.writes)) {
    const bool undefined = args[i].isTensor() && !args[i].toTensor().defined();
    if (!args[i].isNone() && !undefined) written.push_back(i);
  }
  return written;
}

const OpEntry& entry_of(Op op) {
  const auto& name = op.name();
  const bool is_twin = name.starts_with(kTwinPrefix);
  const auto handle = c10::Dispatcher::singleton().findSchema(
      torch_compat::from_op_name(is_twin ? name.substr(kTwinPrefix.size()) : name));
  const OpEntry* twin = handle && is_twin ? entry_of(*handle).twin.get() : nullptr;
  if (twin != nullptr) return *twin;
  if (!handle || is_twin) {
    throw GraphError("expected an operator that this libtorch has, found '" + op.name() +
                     "'; load the library that registers it before running the graph");
  }
  return entry_of(*handle);
}

}  // namespace antegrad::ops
