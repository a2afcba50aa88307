// Which programs can be recorded as a CUDA graph. Needs no GPU.

#include "runtime/graph_obstacle.h"

#include <gtest/gtest.h>

#include "support/joint_graph.h"

namespace antegrad::testing {
namespace graph_obstacle_test {

using runtime::graph_obstacle;
using runtime::reads_whole_storage;

TensorMeta on_gpu(Shape sizes, int16_t index = 0) {
  auto meta = dense(std::move(sizes));
  meta.device = {DeviceKind::cuda, index};
  return meta;
}

// A result of one operator on one tensor.
Graph one(const char* op, const TensorMeta& from, const TensorMeta& to) {
  JointGraph b("one");
  b.result(b.call(op, {b.primal(from)}, to));
  return b.finish();
}

TEST(GraphObstacle, NoneForOperatorsOnOneGpu) {
  EXPECT_EQ(graph_obstacle(one("aten::sin.default", on_gpu({8}), on_gpu({8}))), "");
}

TEST(GraphObstacle, TensorsOnTheHost) {
  EXPECT_EQ(graph_obstacle(one("aten::sin.default", dense({8}), dense({8}))),
            "aten::sin.default reads or makes a tensor on cpu");
}

TEST(GraphObstacle, TwoGpus) {
  EXPECT_EQ(graph_obstacle(one("aten::sin.default", on_gpu({8}), on_gpu({8}, 1))),
            "aten::sin.default reads or makes tensors on cuda:0 and cuda:1");
}

TEST(GraphObstacle, QuestionsAboutData) {
  EXPECT_EQ(graph_obstacle(one("aten::nonzero.default", on_gpu({8}), on_gpu({8, 1}))),
            "aten::nonzero.default asks about data");
}

TEST(GraphObstacle, Draws) {
  JointGraph b("drops");
  const auto x = b.primal(on_gpu({8}));
  const std::vector<Attr> args{attr::Input{}, Attr(0.5), Attr(true)};
  b.result(b.call("aten::native_dropout.default", {x}, args, {on_gpu({8}), on_gpu({8})})[0]);
  EXPECT_EQ(graph_obstacle(b.finish()), "aten::native_dropout.default draws random numbers");
}

// Attention has a place for the state of a generator on the host, also without dropout.
Graph attention(double dropout) {
  JointGraph b("attention");
  const auto heads = on_gpu({1, 2, 8, 16});
  const auto x = b.primal(heads);
  std::vector<Attr> args(3, attr::Input{});
  for (auto&& more :
       {Attr(attr::None{}), Attr(true), Attr(dropout), Attr(true), Attr(attr::None{})}) {
    args.push_back(more);
  }
  TensorMeta state;
  state.dtype = DType::i64;
  const auto made = b.call("aten::_scaled_dot_product_efficient_attention.default", {x, x, x}, args,
                           {heads, on_gpu({1, 2, 32}), state, state});
  b.result(made[0]);
  return b.finish();
}

TEST(GraphObstacle, NoneForAttentionWithoutDropout) {
  EXPECT_EQ(graph_obstacle(attention(0)), "");
  EXPECT_EQ(graph_obstacle(attention(0.1)),
            "aten::_scaled_dot_product_efficient_attention.default draws random numbers");
}

TEST(GraphObstacle, Collectives) {
  EXPECT_EQ(graph_obstacle(one("antegrad::agreed_all_reduce.default", on_gpu({8}), on_gpu({8}))),
            "antegrad::agreed_all_reduce.default communicates");
}

TEST(GraphObstacle, MovesToTheHost) {
  EXPECT_EQ(graph_obstacle(one("antegrad::offload.default", on_gpu({8}), on_gpu({8}))),
            "antegrad::offload.default moves data to the host or back");
}

TEST(GraphObstacle, ProgramsWithoutKernels) {
  JointGraph b("empty");
  b.result(b.primal(on_gpu({8})));
  EXPECT_EQ(graph_obstacle(b.finish()), "it starts no kernels");
}

TEST(GraphObstacle, PlacesInStorages) {
  EXPECT_TRUE(reads_whole_storage(one("aten::as_strided.default", on_gpu({8}), on_gpu({4}))));
  EXPECT_FALSE(reads_whole_storage(one("aten::sin.default", on_gpu({8}), on_gpu({8}))));
}

}  // namespace graph_obstacle_test
}  // namespace antegrad::testing
