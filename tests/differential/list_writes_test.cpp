// Operators that write lists of tensors (_foreach_*_, _fused_*_, out= lists). For each one in the
// dispatcher: data, versions, and the errors of a later backward must be those of eager.

#include <ATen/ATen.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/bits.h"
#include "support/long_tests.h"
#include "support/options.h"

namespace antegrad::testing {
namespace list_writes_test {

using List = std::vector<at::Tensor>;

bool writes_a_list(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     [](const c10::Argument& arg) {
                       return arg.alias_info() != nullptr && arg.alias_info()->isWrite() &&
                              arg.real_type()->isSubtypeOf(*c10::ListType::ofTensors());
                     });
}

// Operators that cannot run here, with the reason.
const std::map<std::string, std::string>& not_here() {
  static const std::map<std::string, std::string> names = {
      {"_cudnn_rnn_backward.out", "needs cuDNN"},
      {"miopen_rnn_backward.out", "needs MIOpen"},
      {"lstm_mps_backward.out", "needs MPS"},
      {"dequantize.tensors_out", "takes quantised tensors, which are refused"},
      {"quantize_per_tensor.tensors_out", "takes quantised tensors, which are refused"},
  };
  return names;
}

// Words of the expected error for a refused operator; otherwise empty.
std::string refusal(const std::string& name) {
  if (name.ends_with("out")) return "writes an `out` that is a list";
  if (name.starts_with("_fused_")) return "operators that return at most one list";
  // The error is libtorch's own: functionalisation checks the operator on meta tensors.
  if (name.starts_with("_foreach_addc") && name.ends_with("_.Tensor")) {
    return "Expected scalars to be on CPU";
  }
  return "";
}

std::vector<c10::OperatorHandle> operators() {
  std::vector<c10::OperatorHandle> found;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op && writes_a_list(op->schema())) found.push_back(*op);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return toString(a.operator_name()) < toString(b.operator_name());
  });
  return found;
}

std::string short_name(const c10::OperatorHandle& op) {
  return toString(op.operator_name()).substr(std::string("aten::").size());
}

// The arguments of a call. All tensors are in one list; `tensors` makes new ones.
struct Arguments {
  torch::jit::Stack values;
  List tensors;
  List written;  // those that the schema says are written

  torch::jit::Stack with(const List& others) const {
    torch::jit::Stack stack;
    size_t next = 0;
    for (const auto& value : values) {
      if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (size_t i = 0; i < value.toTensorList().size(); ++i) list.push_back(others[next++]);
        stack.emplace_back(list);
      } else if (value.isTensor()) {
        stack.emplace_back(others[next++]);
      } else {
        stack.push_back(value);
      }
    }
    return stack;
  }
};

at::Tensor tensor_argument(const std::string& name) {
  if (name == "found_inf") return at::zeros({1});
  if (name == "inv_scale") return at::full({1}, 0.5);
  if (name == "scalars") return at::full({2}, 0.5);
  if (name == "lr" || name == "other") return at::full({}, 0.25);
  return at::rand({2, 3}) * 0.6 + 0.2;
}

// Arguments by type and name that all these operators accept.
std::optional<Arguments> arguments_of(const c10::OperatorHandle& op) {
  at::manual_seed(7);
  Arguments all;
  const auto& schema = op.schema();
  for (const auto& arg : schema.arguments()) {
    const auto& name = arg.name();
    const auto& type = *arg.real_type();
    const auto first = all.tensors.size();
    if (type.isSubtypeOf(*c10::ListType::ofTensors())) {
      c10::List<at::Tensor> list;
      const size_t count = name == "max_exp_avg_sqs" ? 0 : 2;
      for (size_t i = 0; i < count; ++i) {
        all.tensors.push_back(name == "state_steps" ? at::ones({}) : tensor_argument(name));
        list.push_back(all.tensors.back());
      }
      all.values.emplace_back(list);
    } else if (type.kind() == c10::TypeKind::TensorType) {
      all.tensors.push_back(tensor_argument(name));
      all.values.emplace_back(all.tensors.back());
    } else if (type.kind() == c10::TypeKind::OptionalType) {
      all.values.emplace_back();
    } else if (type.kind() == c10::TypeKind::NumberType ||
               type.kind() == c10::TypeKind::FloatType) {
      all.values.emplace_back(0.5);
    } else if (type.kind() == c10::TypeKind::BoolType) {
      all.values.emplace_back(false);
    } else if (type.isSubtypeOf(*c10::ListType::create(c10::NumberType::get()))) {
      c10::List<c10::Scalar> list;
      list.push_back(0.5);
      list.push_back(0.25);
      all.values.emplace_back(c10::impl::toList(list));
    } else if (type.kind() == c10::TypeKind::IntType || type.kind() == c10::TypeKind::SymIntType) {
      all.values.emplace_back(int64_t{name == "split_size" ? 1 : 0});
    } else if (name == "split_sizes") {
      all.values.emplace_back(std::vector<int64_t>{1, 1});
    } else if (name == "bins") {
      all.values.emplace_back(std::vector<int64_t>{2, 2, 2});
    } else {
      return std::nullopt;
    }
    if (arg.alias_info() != nullptr && arg.alias_info()->isWrite()) {
      all.written.insert(all.written.end(), all.tensors.begin() + static_cast<int64_t>(first),
                         all.tensors.end());
    }
  }
  return all;
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::exception& error) {
    const std::string words = error.what();
    return words.find("modified by an inplace operation") != std::string::npos ? "overwritten"
                                                                               : words;
  }
  return "";
}

// The observable state after a call of the operator on new tensors.
struct Seen {
  List tensors;
  std::vector<int64_t> versions;
  std::vector<std::string> backward_outside;
  std::string backward_inside;
  std::string error;
};

Seen run(const c10::OperatorHandle& op, const Arguments& arguments, bool compiled) {
  Seen seen;
  for (const auto& t : arguments.tensors) seen.tensors.push_back(t.clone());
  const auto weight = at::full({}, 3.0).set_requires_grad(true);
  List outside;  // eager code that saved each tensor before the call
  for (const auto& t : seen.tensors) outside.push_back((weight * t).sum());
  auto inputs = seen.tensors;
  inputs.push_back(weight);
  const auto body = [op, arguments](const List& a) -> List {
    List results;
    for (size_t i = 0; i + 1 < a.size(); ++i) results.push_back((a.back() * a[i]).sum());
    auto stack = arguments.with(a);
    op.callBoxed(stack);
    return results;
  };
  List results;
  seen.error = error_of([&] {
    if (compiled) {
      auto step = antegrad::compile(body, tested_options());
      results = step(inputs);
      EXPECT_EQ(step.report().eager_calls, 0) << short_name(op);
    } else {
      results = body(inputs);
    }
  });
  for (const auto& t : seen.tensors) seen.versions.push_back(t._version());
  for (const auto& y : outside) seen.backward_outside.push_back(error_of([&] { y.backward(); }));
  if (!results.empty()) {
    seen.backward_inside = error_of([&] { at::stack(results).sum().backward(); });
  }
  return seen;
}

TEST(ListWrites, AreAsInEager) {
  size_t compared = 0, refused = 0;
  for (const auto& op : operators()) {
    const auto name = short_name(op);
    if (not_here().contains(name)) continue;
    SCOPED_TRACE(name);
    const auto arguments = arguments_of(op);
    ASSERT_TRUE(arguments) << "an argument of a type that arguments_of() does not know";
    const auto words = refusal(name);
    // Finding the line that an error names takes long.
    if (!words.empty() && refused++ % 10 != 0 && !long_tests()) continue;
    const auto eager = run(op, *arguments, false);
    const auto ours = run(op, *arguments, true);
    if (!words.empty()) {
      EXPECT_NE(ours.error.find(words), std::string::npos) << ours.error;
      EXPECT_EQ(ours.versions, std::vector<int64_t>(ours.versions.size(), 0));
      continue;
    }
    EXPECT_EQ(eager.error, "");
    EXPECT_EQ(ours.error, eager.error);
    EXPECT_EQ(ours.versions, eager.versions);
    EXPECT_TRUE(same_bits(ours.tensors, eager.tensors));
    EXPECT_EQ(ours.backward_outside, eager.backward_outside);
    EXPECT_EQ(ours.backward_inside, eager.backward_inside);
    ++compared;
  }
  EXPECT_GE(compared, 70u);  // those of libtorch 2.11; 2.13 has some more
  std::printf("%zu operators compared, %zu refused\n", compared, refused);
}

}  // namespace list_writes_test
}  // namespace antegrad::testing
