// Every shape function against the operator itself: random arguments, both asked, answers compared
// down to the strides. A shape function that is wrong makes silently wrong programs, so an entry
// that samples do not reach is a failure too.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "shapes/shape_call.h"
#include "support/shape_samples.h"

namespace antegrad {
namespace {

using shapes::Call;
using shapes::Spec;

std::optional<c10::OperatorHandle> find_operator(std::string_view op) {
  const size_t dot = op.find('.');
  const std::string name(op.substr(0, dot));
  const std::string overload(dot == std::string_view::npos ? "" : op.substr(dot + 1));
  return c10::Dispatcher::singleton().findSchema({name, overload});
}

/// The tensors that an operator returned, lists flattened; undefined where it returned None.
std::vector<at::Tensor> flattened(const std::vector<c10::IValue>& results) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& result : results) {
    if (result.isTensorList()) {
      for (const at::Tensor& t : result.toTensorVector()) tensors.push_back(t);
    } else if (result.isNone()) {
      tensors.emplace_back();
    } else if (result.isTensor()) {
      tensors.push_back(result.toTensor());
    }
  }
  return tensors;
}

/// What is wrong with an answer; empty when nothing is.
std::string difference(const std::vector<Spec>& answers, const std::vector<at::Tensor>& truth) {
  std::ostringstream out;
  if (answers.size() != truth.size()) {
    out << answers.size() << " outputs described, " << truth.size() << " returned";
    return out.str();
  }
  for (size_t i = 0; i < truth.size(); ++i) {
    const Spec& spec = answers[i];
    const at::Tensor& t = truth[i];
    const bool same =
        spec.defined == t.defined() &&
        (!t.defined() || (spec.dtype == t.scalar_type() && spec.device == t.device() &&
                          t.sizes().equals(spec.sizes) && t.strides().equals(spec.strides) &&
                          t.storage_offset() == spec.offset));
    if (same) continue;
    out << "output " << i << " described as ";
    if (spec.defined) {
      out << spec.dtype << " " << spec.device << " " << at::IntArrayRef(spec.sizes) << "/"
          << at::IntArrayRef(spec.strides) << "+" << spec.offset;
    } else {
      out << "undefined";
    }
    out << ", is " << testing::describe({t});
    if (t.defined()) out << " on " << t.device();
    break;
  }
  return out.str();
}

struct Tally {
  int answered = 0;  ///< agreed with the operator
  int declined = 0;  ///< the function returned false
  int refused = 0;   ///< the operator threw, so did the function or it declined
  int lenient = 0;   ///< the operator threw, the function answered
};

class CrossCheck {
 public:
  CrossCheck(const shapes::Entry& entry, c10::Device device, uint64_t seed)
      : entry_(entry), random_(seed, device), operator_(*find_operator(entry.op)) {}

  /// One sample; the message of a disagreement, or nothing.
  std::string step(Tally& tally) {
    testing::Arguments arguments;
    try {
      arguments = testing::sample_arguments(operator_.schema(), random_);
    } catch (const c10::Error&) {
      return "";  // the sample needed an operator that refused
    }
    const std::string described = testing::describe(arguments);
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
      operator_.callBoxed(stack);
    } catch (const std::exception&) {
      ++(answered ? tally.lenient : tally.refused);
      return "";
    }
    if (threw) return "threw where the operator does not, for " + described;
    if (!answered) {
      ++tally.declined;
      return "";
    }
    const std::string wrong = difference(call.outputs(), flattened(stack));
    if (!wrong.empty()) return wrong + ", for " + described;
    ++tally.answered;
    return "";
  }

 private:
  const shapes::Entry& entry_;
  testing::RandomTensors random_;
  c10::OperatorHandle operator_;
};

uint64_t seed_of_run() {
  const char* given = std::getenv("ANTEGRAD_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 20240607;
}

void cross_check(c10::Device device) {
  const bool long_run = std::getenv("ANTEGRAD_TEST_LONG") != nullptr;
  const bool verbose = std::getenv("ANTEGRAD_TEST_VERBOSE") != nullptr;
  const int wanted = long_run ? 3000 : 150;
  constexpr int kRequired = 12;  ///< answers without which an entry counts as not reached
  if (!long_run) at::set_num_threads(1);  // starting threads costs more than these samples
  const uint64_t seed = seed_of_run();
  uint64_t index = 0;
  Tally total;
  for (const shapes::Entry& entry : shapes::all()) {
    SCOPED_TRACE(std::string(entry.op) + ", seed " + std::to_string(seed));
    ++index;
    if (!find_operator(entry.op)) continue;  // another test's matter
    Tally tally;
    CrossCheck check(entry, device, seed * 1000003 + index);
    int disagreements = 0;
    for (int i = 0; i < 4 * wanted && tally.answered < wanted && disagreements < 3; ++i) {
      const std::string message = check.step(tally);
      if (message.empty()) continue;
      ++disagreements;
      ADD_FAILURE() << entry.op << " on " << device << ": " << message;
    }
    EXPECT_GE(tally.answered, kRequired)
        << entry.op << ": declined " << tally.declined << ", operator refused " << tally.refused;
    if (verbose) {
      std::printf("%-55s answered %4d declined %4d refused %4d lenient %4d\n",
                  std::string(entry.op).c_str(), tally.answered, tally.declined, tally.refused,
                  tally.lenient);
    }
    total.answered += tally.answered;
    total.declined += tally.declined;
  }
  ::testing::Test::RecordProperty("answered", total.answered);
  ::testing::Test::RecordProperty("declined", total.declined);
}

TEST(ShapesCrosscheck, EveryFunctionAgreesWithTheCpuOperator) { cross_check(at::kCPU); }

TEST(ShapesCrosscheck, EveryFunctionAgreesWithTheCudaOperator) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device";
  cross_check(c10::Device(at::kCUDA, 0));
}

TEST(ShapesRegistry, EveryEntryNamesAnOperator) {
  for (const shapes::Entry& entry : shapes::all()) {
    EXPECT_TRUE(find_operator(entry.op)) << entry.op;
    EXPECT_EQ(shapes::find(entry.op), entry.function) << entry.op;
  }
}

TEST(ShapesRegistry, NoEntryForAnOperatorWhoseOutputDependsOnData) {
  for (const shapes::Entry& entry : shapes::all()) {
    const auto op = find_operator(entry.op);
    if (!op) continue;
    EXPECT_FALSE(op->hasTag(at::Tag::data_dependent_output)) << entry.op;
    // Advanced indexing has the tag because of masks, which its function declines.
    if (entry.op == "aten::index.Tensor" || entry.op == "aten::_unsafe_index.Tensor") continue;
    EXPECT_FALSE(op->hasTag(at::Tag::dynamic_output_shape)) << entry.op;
  }
}

// An operator that is made of others never arrives below autograd: a line for it would be dead.
TEST(ShapesRegistry, NoEntryForAnOperatorThatDecomposes) {
  for (const shapes::Entry& entry : shapes::all()) {
    const auto op = find_operator(entry.op);
    if (!op) continue;
    EXPECT_TRUE(op->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
                op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
                op->hasKernelForDispatchKey(
                    c10::DispatchKey::CompositeExplicitAutogradNonFunctional))
        << entry.op;
  }
}

TEST(ShapesRegistry, UnknownOperatorsHaveNone) {
  EXPECT_EQ(shapes::find("aten::nonzero"), nullptr);
  EXPECT_EQ(shapes::find("aten::add"), nullptr);
  EXPECT_EQ(shapes::find(""), nullptr);
}

}  // namespace
}  // namespace antegrad
