#include "ops/op_table.h"

#include <ATen/core/enum_tag.h>
#include <ATen/core/function_schema.h>
#include <antegrad/error.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

#include "torch_compat/convert.h"

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

// Operators that write running statistics in training without an alias annotation. For
// native_batch_norm see capture/interceptions.cpp.
constexpr std::string_view kHiddenMutation[] = {"aten::cudnn_batch_norm",
                                                "aten::miopen_batch_norm"};

bool returns_host_values(const c10::FunctionSchema& schema) {
  for (const auto& ret : schema.returns()) {
    switch (kind_of(*ret.real_type())) {
      case ArgKind::tensor:
      case ArgKind::tensors:
      case ArgKind::optional_tensors: break;
      default: return true;
    }
  }
  return false;
}

Policy policy_of(const c10::OperatorHandle& handle) {
  const auto& name = handle.operator_name().name;
  for (const auto hidden : kHiddenMutation) {
    if (name == hidden) return Policy::hidden_mutation;
  }
  if (handle.hasTag(at::Tag::data_dependent_output) ||
      handle.hasTag(at::Tag::dynamic_output_shape) || returns_host_values(handle.schema())) {
    return Policy::data_dependent;
  }
  return Policy::record;
}

// Traits for operators that the built-in table does not know, from what the dispatcher tells.
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
    takes_tensor |= kind_of(*arg.real_type()) <= ArgKind::optional_tensors;
  }
  traits.view = aliases && !traits.mutates;
  traits.factory = !takes_tensor;
  return traits;
}

// The in-place overload that takes exactly the same arguments, "" when there is none. bernoulli is
// the one family whose in-place overload has another name.
std::string inplace_of(const c10::OperatorHandle& handle) {
  auto name = handle.operator_name();
  name.name += "_";
  if (name.name == "aten::bernoulli_" && name.overload_name == "p") name.overload_name = "float";
  const auto inplace = c10::Dispatcher::singleton().findSchema(name);
  if (!inplace) return "";
  const auto& from = handle.schema().arguments();
  const auto& to = inplace->schema().arguments();
  if (from.size() != to.size() || inplace->schema().returns().size() != 1) return "";
  for (size_t i = 0; i < from.size(); ++i) {
    if (*from[i].real_type() != *to[i].real_type() || from[i].name() != to[i].name()) return "";
  }
  const auto* info = to.empty() ? nullptr : to[0].alias_info();
  return info != nullptr && info->isWrite() ? torch_compat::to_op_name(name) : "";
}

// The argument that an in-place or out= operator writes and returns, -1 for other operators.
int written_arg(const c10::FunctionSchema& schema) {
  int found = -1;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* info = schema.arguments()[i].alias_info();
    if (info == nullptr || !info->isWrite()) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return schema.returns().size() == 1 ? found : -1;
}

std::unique_ptr<OpEntry> describe(const c10::OperatorHandle& handle) {
  auto entry = std::make_unique<OpEntry>(handle);
  const auto& schema = handle.schema();
  const auto& name = handle.operator_name();
  OpInfo info;
  info.name = torch_compat::to_op_name(name);
  info.base_name = name.name;
  info.traits = traits_of(handle);
  info.inplace_name = inplace_of(handle);
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
  entry->written_arg = written_arg(schema);
  entry->composite = handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  entry->meta_kernel =
      handle.hasKernelForDispatchKey(c10::DispatchKey::Meta) ||
      handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
      handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
  entry->random = entry->op.traits().random || handle.hasTag(at::Tag::nondeterministic_seeded);
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

const OpEntry& entry_of(Op op) {
  const auto handle =
      c10::Dispatcher::singleton().findSchema(torch_compat::from_op_name(op.name()));
  if (!handle) {
    throw GraphError("expected an operator that this libtorch has, found '" + op.name() +
                     "'; load the library that registers it before running the graph");
  }
  return entry_of(*handle);
}

}  // namespace antegrad::ops
