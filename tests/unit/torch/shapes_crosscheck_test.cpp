// Compares every shape function with its operator on random arguments, down to the strides. A wrong
// shape function makes programs silently wrong, so an entry without samples is a failure too.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "capture/stand_in.h"
#include "graph/op.h"
#include "ops/op_table.h"
#include "ops/own_kernels.h"
#include "shapes/compare.h"
#include "shapes/shape_call.h"
#include "support/bits.h"
#include "support/long_tests.h"
#include "support/shape_samples.h"

namespace antegrad {
namespace shapes {

// For test listings.
void PrintTo(const Entry& entry, std::ostream* out) { *out << entry.op; }

}  // namespace shapes

namespace shapes_crosscheck_test {

using antegrad::testing::long_tests;
using shapes::Call;
using shapes::Spec;

std::optional<c10::OperatorHandle> find_operator(std::string_view op) {
  const size_t dot = op.find('.');
  const std::string name(op.substr(0, dot));
  const std::string overload(dot == std::string_view::npos ? "" : op.substr(dot + 1));
  return c10::Dispatcher::singleton().findSchema({name, overload});
}

struct Tally {
  int answered = 0;  ///< agreed with the operator
  int declined = 0;  ///< the function returned false
  int refused = 0;   ///< the operator threw, so did the function or it declined
  int lenient = 0;   ///< the operator threw, the function answered
};

/// Random arguments cause many warnings ("an output was resized", "degrees of freedom is <= 0").
class NoWarnings : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

/// Runs the function and the operator on random arguments.
class CrossCheck {
 public:
  CrossCheck(const shapes::Entry& entry, const c10::OperatorHandle& op, c10::Device device,
             uint64_t seed)
      : entry_(entry),
        random_(seed, device),
        schema_(op.schema()),
        kernel_(ops::entry_of(op).handle),
        graph_op_(ops::entry_of(op).op) {}

  /// Runs one sample. Returns the message of a disagreement, or "".
  std::string step(Tally& tally) {
    testing::Arguments arguments;
    try {
      arguments = testing::sample_arguments(schema_, random_);
    } catch (const c10::Error&) {
      return "";  // the sample needed an operator that refused
    }
    const std::string given = testing::describe(arguments);
    Call call(arguments);
    bool answered = false;
    bool threw = false;
    try {
      answered = entry_.function(call);
    } catch (const c10::Error&) {
      threw = true;
    }
    std::vector<c10::IValue> stack = arguments;
    try {
      at::AutoDispatchBelowADInplaceOrView below_autograd;
      kernel_.callBoxed(stack);
    } catch (const std::exception&) {
      ++(answered ? tally.lenient : tally.refused);
      return "";
    }
    if (threw) return "threw where the operator does not, for " + given;
    if (!answered) {
      ++tally.declined;
      return "";
    }
    const std::string wrong = shapes::difference(call.outputs(), shapes::specs_of(stack));
    if (!wrong.empty()) return wrong + ", for " + given;
    ++tally.answered;
    if (!graph_op_.traits().oversized && returns_too_much(arguments, stack)) {
      return "returns more memory than its results show, for " + given +
             " (see OpTraits::oversized)";
    }
    return "";
  }

 private:
  // Whether a result owns more memory than it needs, which would make predicted peaks wrong.
  static bool returns_too_much(const testing::Arguments& arguments,
                               const std::vector<c10::IValue>& results) {
    std::set<const void*> given;
    const auto visit = [](const c10::IValue& value, const auto& each) {
      if (value.isTensor()) each(value.toTensor());
      if (value.isTensorList()) {
        for (const at::Tensor& t : value.toTensorList()) each(t);
      }
    };
    for (const auto& value : arguments) {
      visit(value, [&](const at::Tensor& t) {
        if (t.defined()) given.insert(t.storage().unsafeGetStorageImpl());
      });
    }
    bool too_much = false;
    for (const auto& value : results) {
      visit(value, [&](const at::Tensor& t) {
        if (!t.defined() || given.count(t.storage().unsafeGetStorageImpl()) > 0) return;
        int64_t last = t.numel() == 0 ? 0 : t.storage_offset() + 1;
        for (int64_t d = 0; t.numel() > 0 && d < t.dim(); ++d)
          last += (t.size(d) - 1) * t.stride(d);
        too_much |= static_cast<int64_t>(t.storage().nbytes()) > last * t.element_size() + 64;
      });
    }
    return too_much;
  }

  const shapes::Entry& entry_;
  testing::RandomTensors random_;
  const c10::FunctionSchema& schema_;
  c10::OperatorHandle kernel_;  // the kernel that programs call
  Op graph_op_;
};

uint64_t seed_of_run() {
  const char* given = std::getenv("ANTEGRAD_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 20240607;
}

bool has_kernel(const c10::OperatorHandle& op, c10::DispatchKey backend) {
  using c10::DispatchKey;
  return op.hasKernelForDispatchKey(backend) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

void cross_check(const shapes::Entry& entry, c10::Device device) {
  const int wanted = long_tests() ? 3000 : 150;
  constexpr int kRequired = 20;  ///< answers below which an entry counts as not reached
  if (!long_tests()) at::set_num_threads(1);  // starting threads costs more than these samples
  const auto op = find_operator(entry.op);
  if (!op) GTEST_SKIP() << "no such operator";  // another test checks that
  const auto backend = device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  if (!has_kernel(*op, backend)) GTEST_SKIP() << "no kernel for " << device;
  // With random arguments, its CUDA kernel makes the device unusable for the process (2.11). The
  // shape function declines on CUDA, so nothing is left unchecked.
  if (device.is_cuda() && entry.op == "aten::_batch_norm_with_update_functional") return;

  NoWarnings quiet;
  c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("ANTEGRAD_TEST_SEED=" + std::to_string(seed));
  Tally tally;
  CrossCheck check(entry, *op, device, seed * 1000003 + std::hash<std::string_view>{}(entry.op));
  for (int i = 0; i < 4 * wanted && tally.answered < wanted; ++i) {
    ASSERT_EQ(check.step(tally), "");
  }
  // CUDA may have its own kernels without a shape function.
  const int reached = tally.answered + (device.is_cuda() ? tally.declined : 0);
  EXPECT_GE(reached, kRequired) << "declined " << tally.declined << ", refused " << tally.refused;
  ::testing::Test::RecordProperty("answered", tally.answered);
  ::testing::Test::RecordProperty("declined", tally.declined);
  ::testing::Test::RecordProperty("lenient", tally.lenient);
}

class ShapeFunction : public ::testing::TestWithParam<shapes::Entry> {};

TEST_P(ShapeFunction, AgreesWithTheRealKernels) {
  for (const auto device : antegrad::testing::devices()) {
    // Some CUDA kernels make the device unusable for the process if arguments are invalid, and all
    // later tests fail. Only run in the long form, and inspected by hand.
    if (device.is_cuda() && !long_tests()) continue;
    SCOPED_TRACE(device.str());
    cross_check(GetParam(), device);
  }
}

std::string test_name(const ::testing::TestParamInfo<shapes::Entry>& info) {
  std::string name(info.param.op.substr(info.param.op.find("::") + 2));
  std::replace(name.begin(), name.end(), '.', '_');
  // `a.b` and `a_b` may both exist.
  return info.param.op.find('.') == std::string_view::npos ? name : name + "_overload";
}

// Collectives need other ranks: tests/distributed/shapes_test.cpp.
std::vector<shapes::Entry> entries() {
  auto all = shapes::all();
  std::erase_if(all, [](const shapes::Entry& entry) {
    return builtin_traits(entry.op.substr(0, entry.op.find('.'))).collective;
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(, ShapeFunction, ::testing::ValuesIn(entries()), test_name);

TEST(ShapesRegistry, EveryEntryNamesAnOperator) {
  for (const shapes::Entry& entry : shapes::all()) {
    EXPECT_TRUE(find_operator(entry.op)) << entry.op;
    EXPECT_EQ(shapes::find(entry.op), entry.function) << entry.op;
  }
}

// Includes entries without a kernel on this machine, which the cross-check skips.
TEST(ShapesRegistry, EveryEntryHasSamples) {
  for (const shapes::Entry& entry : entries()) {
    const auto op = find_operator(entry.op);
    if (op) {
      EXPECT_TRUE(testing::has_samples(op->schema())) << entry.op;
    }
  }
}

TEST(ShapesRegistry, NoEntryForAnOperatorWhoseOutputDependsOnData) {
  for (const shapes::Entry& entry : shapes::all()) {
    const auto op = find_operator(entry.op);
    if (!op) continue;
    EXPECT_FALSE(op->hasTag(at::Tag::data_dependent_output)) << entry.op;
    // Advanced indexing has the tag because of masks, for which its function declines.
    if (entry.op == "aten::index.Tensor" || entry.op == "aten::_unsafe_index.Tensor") continue;
    if (entry.op == "aten::_ctc_loss") continue;  // because of its overload for lengths in tensors
    EXPECT_FALSE(op->hasTag(at::Tag::dynamic_output_shape)) << entry.op;
  }
}

// An operator that decomposes into others never arrives below autograd: an entry for it would be
// dead.
TEST(ShapesRegistry, NoEntryForAnOperatorThatDecomposes) {
  for (const shapes::Entry& entry : shapes::all()) {
    const auto op = find_operator(entry.op);
    if (!op) continue;
    if (entry.op.find("_fused_rms_norm") != std::string_view::npos) continue;  // not on CUDA
    const bool decomposes =
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    EXPECT_TRUE(!decomposes || has_kernel(*op, c10::DispatchKey::CPU)) << entry.op;
  }
}

TEST(ShapesRegistry, UnknownOperatorsHaveNone) {
  EXPECT_EQ(shapes::find("aten::nonzero"), nullptr);
  EXPECT_EQ(shapes::find("aten::add"), nullptr);
  EXPECT_EQ(shapes::find(""), nullptr);
}

}  // namespace shapes_crosscheck_test
}  // namespace antegrad
