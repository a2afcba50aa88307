// Times of nodes from measured curves, and the file that keeps these.

#include "cost/rates.h"

#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "cost/machine.h"
#include "cost/rates_file.h"
#include "graphs.h"
#include "one_node.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace rates_test {

using nlohmann::json;

WeighedClasses classes_of(const Types& inputs, const Types& outputs, const std::string& call) {
  const Graph graph = graph_of_call(inputs, outputs, call);
  return kernel_classes(graph, graph.nodes.front());
}

std::string class_of(const Types& inputs, const Types& outputs, const std::string& call) {
  const auto classes = classes_of(inputs, outputs, call);
  EXPECT_LE(classes.size(), 1U);
  return classes.empty() ? "none" : to_string(classes.front().first);
}

TEST(KernelClasses, FollowFromOperatorDtypeAndLayout) {
  EXPECT_EQ(class_of({"f16[4,4]", "f16[4,4]"}, {"f16[4,4]"}, "aten::mm.default(%0, %1)"),
            "product f16");
  EXPECT_EQ(class_of({"i8[4,4]", "i8[4,4]"}, {"i32[4,4]"}, "aten::_int_mm.default(%0, %1)"),
            "none");
  EXPECT_EQ(class_of({"f32[4]"}, {"f32[4]"}, "aten::tanh.default(%0)"), "transcendental f32");
  EXPECT_EQ(class_of({"i64[4]"}, {"i64[4]"}, "aten::neg.default(%0)"), "pointwise f32");
  EXPECT_EQ(class_of({"f64[4,8]"}, {"f64[8]"}, "aten::sum.dim_IntList(%0, [0], false, none)"),
            "reduction f64");
  EXPECT_EQ(class_of({"f32[4,8]"}, {"f32[4,8]"}, "aten::_log_softmax.default(%0, 1, false)"),
            "softmax f32");
}

TEST(KernelClasses, OfConvolutionsFollowFromImagesAndStride) {
  const auto convolution = [](const std::string& x, const std::string& w,
                              const std::string& stride = "[1, 1]") {
    return class_of({x, w}, {"bf16[2,8,4,4]"},
                    "aten::convolution.default(%0, %1, none, stride=" + stride +
                        ", padding=[0, 0], dilation=[1, 1], transposed=false, "
                        "output_padding=[0, 0], groups=1)");
  };
  EXPECT_EQ(convolution("bf16[2,8,4,4]", "bf16[8,8,1,1]"), "convolution_1x1 bf16");
  EXPECT_EQ(convolution("bf16[2,8,8,8]", "bf16[8,8,1,1]", "[2, 2]"),
            "convolution_1x1 bf16 strided");
  EXPECT_EQ(convolution("bf16[2,8,7,7]", "bf16[8,8,1,1]"), "convolution_1x1 bf16 unaligned");
  EXPECT_EQ(convolution("bf16[2,8,6,6]", "bf16[8,8,3,3]"), "convolution bf16");
  EXPECT_EQ(convolution("bf16[2,3,6,6]", "bf16[8,3,3,3]"), "convolution bf16 thin");
  EXPECT_EQ(convolution("bf16[2,8,6,6]{288,1,48,8}", "bf16[8,8,3,3]"),
            "convolution bf16 channels_last");
}

TEST(KernelClasses, OfBatchNormsAreBetweenNumbersOfChannels) {
  const auto batch_norm = [](const std::string& channels) {
    const std::string image = "f32[2," + channels + ",4,4]", vector = "f32[" + channels + "]";
    return classes_of({image, vector}, {image, vector, vector},
                      "aten::native_batch_norm.default(%0, %1, %1, none, none, true, 0.1, 1e-05)");
  };
  using Texts = std::vector<std::pair<std::string, double>>;
  const auto texts = [](const WeighedClasses& classes) {
    Texts all;
    for (const auto& [kernel, share] : classes) all.emplace_back(to_string(kernel), share);
    return all;
  };
  const std::string least = "batch_norm f32 channels_64", most = "batch_norm f32 channels_1024";
  EXPECT_EQ(texts(batch_norm("3")), (Texts{{least, 1}}));
  EXPECT_EQ(texts(batch_norm("64")), (Texts{{least, 1}}));
  EXPECT_EQ(texts(batch_norm("5000")), (Texts{{most, 1}}));
  EXPECT_EQ(texts(batch_norm("512")), (Texts{{"batch_norm f32 channels_256", 0.5}, {most, 0.5}}));
}

TEST(KernelTimes, BetweenClassesAreInterpolated) {
  const Graph graph =
      graph_of_call({"f32[2,128,4,4]", "f32[128]"}, {"f32[2,128,4,4]", "f32[128]", "f32[128]"},
                    "aten::native_batch_norm.default(%0, %1, %1, none, none, true, 0.1, 1e-05)");
  Rates rates = {{"batch_norm f32 channels_64", {1e-6, {{1e9, 8e-6}}}}};
  EXPECT_FALSE(kernel_time(graph, graph.nodes[0], {}, rates));
  rates["batch_norm f32 channels_256"] = {3e-6, {{1e9, 2e-6}}};
  const auto time = kernel_time(graph, graph.nodes[0], {}, rates);
  ASSERT_TRUE(time);
  EXPECT_NEAR(time->seconds, 4e-6, 1e-12);
  EXPECT_NEAR(time->call_seconds, 2e-6, 1e-12);
}

TEST(Rate, InterpolatesExponentsAndGrowsWithWorkAboveTheLastPoint) {
  const Rate rate{0, {{100, 1e-6}, {10000, 1e-4}}};
  EXPECT_DOUBLE_EQ(rate.seconds(1), 1e-6);
  EXPECT_DOUBLE_EQ(rate.seconds(100), 1e-6);
  EXPECT_NEAR(rate.seconds(1000), 1e-5, 1e-12);
  EXPECT_DOUBLE_EQ(rate.seconds(10000), 1e-4);
  EXPECT_DOUBLE_EQ(rate.seconds(30000), 3e-4);
}

Graph two_nodes() {
  return graph_of(R"(inputs
  %0: f32[64,64] primal argument 0
nodes
  %1: f32[64,64] = aten::mm.default(%0, %0)
  %2: f32[64,64] = aten::neg.default(%1)
outputs
  %2 result
)");
}

TEST(NodeSeconds, ComeFromRatesWhereTheMachineHasThem) {
  const Graph graph = two_nodes();
  Machine machine = machine_named("gpu");
  machine.rates["product f32"] = {0, {{1, 5e-6}}};
  const auto times = node_seconds(graph, {}, machine);
  EXPECT_DOUBLE_EQ(times[0], 5e-6 * 2 * 64 * 64 * 64);
  EXPECT_EQ(times[1], seconds(node_cost(graph, graph.nodes[1]), kGpu));
  // A product moves its bytes in no less time than a pointwise kernel.
  machine.rates["product f32"] = {0, {{1e12, 1e-9}}};
  machine.rates["pointwise f32"] = {0, {{1, 1}}};
  EXPECT_DOUBLE_EQ(node_seconds(graph, {}, machine)[0], 2 * 64 * 64 * 4);
}

TEST(NodeSeconds, AreThoseOfTheCallsWhereTheHostTakesLonger) {
  const Graph graph = two_nodes();
  Machine machine = machine_named("gpu");
  machine.rates["product f32"] = {4e-6, {{1e9, 9e-6}}};
  machine.rates["pointwise f32"] = {4e-6, {{1e9, 1e-6}}};
  EXPECT_EQ(node_seconds(graph, {}, machine), (std::vector{9e-6, 1e-6}));
  machine.rates["product f32"].call_seconds = 7e-6;
  EXPECT_EQ(node_seconds(graph, {}, machine), (std::vector{9e-6, 4e-6}));
}

class RatesFiles : public ::testing::Test {
 protected:
  void write(const std::string& text) const { std::ofstream(path) << text; }

  TemporaryFolder folder;
  const std::string path = folder / "caches/rates.json";
  const Rates rates = {{"product f32", {1e-6, {{1, 2e-6}, {3, 4e-6}}}}};
};

TEST_F(RatesFiles, KeepTheRatesOfEachMachine) {
  {
    const RatesFile file(path);
    EXPECT_TRUE(file.write("one", rates));
    EXPECT_TRUE(file.write("two", {}));
  }
  RatesFile file(path);
  EXPECT_EQ(file.read("one"), rates);
  EXPECT_EQ(file.read("two"), Rates());
  EXPECT_EQ(file.read("three"), Rates());
  EXPECT_EQ(file.damage(), "");
}

TEST_F(RatesFiles, DamagedFilesAreIgnoredAndReplaced) {
  for (const char* text :
       {"", "{", "[]", R"({"version": 2, "machines": {}})",
        R"({"version": 1, "machines": {"one": {"product f32": {"call": 0, "points": []}}}})",
        R"({"version": 1, "machines": {"one": {"product f32": {"call": 0, "points": [[2, -1]]}}}})",
        R"({"version": 1, "machines": {"one": {"x": {"call": 0, "points": [[2, 3], [1, 4]]}}}})"}) {
    SCOPED_TRACE(text);
    RatesFile file(path);
    write(text);
    EXPECT_EQ(file.read("one"), Rates());
    EXPECT_NE(file.damage(), "");
    EXPECT_TRUE(file.write("one", rates));
    EXPECT_EQ(file.read("one"), rates);
    EXPECT_EQ(file.damage(), "");
  }
}

TEST_F(RatesFiles, WithoutADirectoryKeepNothing) {
  std::ofstream(folder / "file") << "";
  for (const std::string& nowhere : {std::string(), folder / "file/below/it"}) {
    RatesFile file(nowhere);
    EXPECT_FALSE(file.write("one", rates));
    EXPECT_EQ(file.read("one"), Rates());
    EXPECT_EQ(file.damage(), "");
  }
}

}  // namespace rates_test
}  // namespace antegrad::testing
