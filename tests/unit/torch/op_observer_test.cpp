#include "torch_compat/op_observer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace antegrad::testing {
namespace op_observer_test {

// Records "name(" at the start of a call, and ")" with the number of results at its end.
class Notes final : public torch_compat::OpObserver {
 public:
  void before(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> /*arguments*/) override {
    text += op.operator_name().name + "(";
  }
  void after(at::ArrayRef<c10::IValue> results) override {
    text += std::to_string(results.size()) + ")";
  }
  std::string text;
};

TEST(OpObserver, SeesCallsAndThoseTheyMakeAmongThemselves) {
  const auto x = at::ones({2});
  Notes notes;
  {
    const torch_compat::ObserverScope scope(notes);
    at::neg(x);
    at::square(x);  // pow is called inside
  }
  at::neg(x);
  EXPECT_TRUE(notes.text.starts_with("aten::neg(1)aten::square(aten::pow(")) << notes.text;
  EXPECT_TRUE(notes.text.ends_with("1)")) << notes.text;
  EXPECT_EQ(notes.text.find("aten::neg", 1), std::string::npos);
}

TEST(OpObserver, ACallThatThrowsEndsWithoutResults) {
  Notes notes;
  const torch_compat::ObserverScope scope(notes);
  EXPECT_ANY_THROW(at::mm(at::Tensor(at::ones({2, 3})), at::ones({2, 3})));
  EXPECT_NE(notes.text.find("aten::mm(0)"), std::string::npos) << notes.text;
}

TEST(OpObserver, OtherThreadsAreNotSeen) {
  const auto x = at::ones({2});
  Notes notes;
  const torch_compat::ObserverScope scope(notes);
  std::thread([&] { at::neg(x); }).join();
  EXPECT_EQ(notes.text, "");
}

TEST(OpObserver, ThisThreadIsObserved) {
  EXPECT_FALSE(torch_compat::is_observed());
  {
    Notes notes;
    const torch_compat::ObserverScope scope(notes);
    EXPECT_TRUE(torch_compat::is_observed());
    std::thread([] { EXPECT_FALSE(torch_compat::is_observed()); }).join();
  }
  EXPECT_FALSE(torch_compat::is_observed());
}

TEST(OpObserver, ScopesNest) {
  const auto x = at::ones({2});
  Notes outer, inner;
  const torch_compat::ObserverScope a(outer);
  {
    const torch_compat::ObserverScope b(inner);
    at::neg(x);
  }
  at::abs(x);
  EXPECT_EQ(inner.text, "aten::neg(1)");
  EXPECT_TRUE(outer.text.starts_with("aten::neg(1)aten::abs(")) << outer.text;
}

}  // namespace op_observer_test
}  // namespace antegrad::testing
