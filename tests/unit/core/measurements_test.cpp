#include "cost/measurements.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "graphs.h"

namespace antegrad::testing {
namespace measurements_test {

using nlohmann::json;

TEST(Measurements, ComeBackFromTheirText) {
  const Measurements measured{{-1, 0.25, 0}, {0, 0, 512}};
  const std::string text = json(measured).dump();
  EXPECT_EQ(text, R"({"scratch":[[2,512]],"seconds":[[1,0.25],[2,0.0]]})");
  EXPECT_EQ(json::parse(text).get<Measurements>(), measured);
  EXPECT_EQ(json(Measurements()).dump(), "{}");
  EXPECT_EQ(json::parse("{}").get<Measurements>(), Measurements());
}

TEST(Measurements, OfADamagedTextAreRefused) {
  expect_error<GraphError>(
      [] { json::parse(R"({"seconds": [[2000000000, 1.0]]})").get<Measurements>(); }, "seconds");
  EXPECT_THROW(json::parse(R"({"scratch": [1]})").get<Measurements>(), json::exception);
}

}  // namespace measurements_test
}  // namespace antegrad::testing
