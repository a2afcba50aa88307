// The part of a capture that is common to all drivers.

#include "capture/session.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "capture/tracer.h"

namespace antegrad::testing::session_test {
namespace {

using capture::Captured;
using capture::Session;
using capture::World;

// Runs a function and keeps the recorded graph.
class Toy final : public capture::Driver {
 public:
  using Function = std::function<std::vector<at::Tensor>()>;
  explicit Toy(Function function) : function_(std::move(function)) {}

  std::vector<at::Tensor> run(capture::Tracer&) override {
    ++runs;
    return function_();
  }
  void check(capture::Tracer&, const std::vector<at::Tensor>& results) override {
    result_count = results.size();
  }
  void finish(capture::Tracer& tracer, std::vector<at::Tensor>, Captured& captured) override {
    ++finished;
    for (const auto& root : tracer.roots()) captured.primals.push_back(root.real);
    captured.joint = std::move(tracer.graph);
  }

  int runs = 0;
  int finished = 0;
  size_t result_count = 0;

 private:
  Function function_;
};

TEST(Session, CapturesWhatADriverRunsOnTensorsThatItHolds) {
  const auto held = at::ones({2, 3});
  Toy toy([&] { return std::vector{held * 2, held + held}; });
  World world;
  world.name = "toy";
  const auto captured = Session(world, toy).capture();
  EXPECT_EQ(captured.joint.name, "toy");
  ASSERT_EQ(captured.joint.nodes.size(), 2U);
  EXPECT_EQ(captured.joint.nodes[0].op.info().base_name, "aten::mul");
  ASSERT_EQ(captured.primals.size(), 1U);
  EXPECT_TRUE(captured.primals[0].is_same(held));
  EXPECT_EQ(toy.result_count, 2U);
  EXPECT_EQ(toy.runs, 1);
  EXPECT_FALSE(capture::capturing());
}

TEST(Session, RunsAgainWhereWrittenMemoryIsShared) {
  const auto base = at::ones({4});
  const auto view = base.view({2, 2});
  Toy toy([&] {
    view.mul_(2);
    return std::vector{base + 1};
  });
  const World world;
  Session(world, toy).capture();
  EXPECT_EQ(toy.runs, 2);
  EXPECT_EQ(toy.finished, 1);
  EXPECT_TRUE(base.equal(at::ones({4})));  // nothing was written
}

TEST(Session, WhatADriverChangesIsPutBackAndRefused) {
  const auto held = at::ones({2});
  Toy toy([&] {
    held.set_requires_grad(true);
    return std::vector<at::Tensor>();
  });
  World world;
  world.watched = {held};
  EXPECT_THROW(Session(world, toy).capture(), EscapeError);
  EXPECT_FALSE(held.requires_grad());
}

TEST(Session, AnErrorOfTheDriverPassesAndNothingStaysActive) {
  const auto held = at::ones({2});
  Toy toy([&]() -> std::vector<at::Tensor> {
    held.mul_(2);
    throw std::runtime_error("no");
  });
  const World world;
  EXPECT_THROW(Session(world, toy).capture(), std::runtime_error);
  EXPECT_FALSE(capture::capturing());
  EXPECT_TRUE((held * 2).equal(at::ones({2}) + 1));
}

TEST(Session, AStandInThatIsKeptIsNamed) {
  const auto held = at::ones({2});
  at::Tensor kept;
  Toy toy([&] {
    kept = held * 2;
    return std::vector<at::Tensor>();
  });
  const World world;
  try {
    Session(world, toy).capture();
    FAIL() << "captured";
  } catch (const EscapeError& error) {
    EXPECT_NE(std::string(error.what()).find("aten::mul"), std::string::npos) << error.what();
  }
}

TEST(Session, SaysWhereANodeWasRecorded) {
  const auto held = at::ones({2});
  Toy toy([&] { return std::vector{held * 2}; });
  const World world;
  Session session(world, toy);
  const auto captured = session.capture();
  EXPECT_NE(session.line_of(captured.joint.nodes[0].id).find("session_test.cpp"),
            std::string::npos);
  EXPECT_EQ(session.line_of(1000), "");
}

TEST(Session, DoesNotRunInsideAnother) {
  const World world;
  Toy inner([] { return std::vector<at::Tensor>(); });
  Toy outer([&] {
    Session(world, inner).capture();
    return std::vector<at::Tensor>();
  });
  EXPECT_THROW(Session(world, outer).capture(), NestedCaptureError);
  EXPECT_EQ(inner.runs, 0);
}

}  // namespace
}  // namespace antegrad::testing::session_test
