#include "log/trace.h"

#include <antegrad/compile.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "log/md5.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace trace_test {

TEST(Md5, GivesTheDigestsOfItsStandard) {
  EXPECT_EQ(md5(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(md5("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(Trace, ARecordIsAPrefixAnObjectAndAnIndentedPayload) {
  const auto text = trace_record({3, 1}, {"antegrad_report", "string", "a\n\nb"}, 1.25);
  std::smatch parts;
  ASSERT_TRUE(std::regex_match(
      text, parts,
      std::regex("V\\d{4} \\d\\d:\\d\\d:\\d\\d\\.250000 \\d+ [^:]+:\\d+\\] (\\{.*\\})\n"
                 "\ta\n\t\n\tb\n")))
      << text;
  const auto record = nlohmann::json::parse(parts[1].str());
  EXPECT_EQ(record["artifact"]["name"], "antegrad_report");
  EXPECT_EQ(record["artifact"]["encoding"], "string");
  EXPECT_EQ(record["frame_id"], 3);
  EXPECT_EQ(record["frame_compile_id"], 1);
  EXPECT_EQ(record["attempt"], 0);
  EXPECT_EQ(record["has_payload"], md5("a\n\nb"));
}

TEST(Trace, ACompilationIsTraced) {
  struct Found {
    TraceId id;
    std::string name, encoding, payload;
  };
  std::vector<Found> all;
  set_trace_sink([&](const TraceId& id, const TraceArtifact& artifact) {
    all.push_back(
        {id, std::string(artifact.name), std::string(artifact.encoding), artifact.payload});
  });
  auto step = compile([](const at::Tensor& x) { return x.sin().exp().sum(); });
  step(at::randn({4}).set_requires_grad(true)).backward();
  step(at::randn({4}));
  set_trace_sink(nullptr);
  ASSERT_EQ(all.size(), 12U);
  EXPECT_EQ(all[0].name, "antegrad_joint_graph");
  EXPECT_NE(all[0].payload.find("antegrad.graph"), std::string::npos);
  EXPECT_EQ(all[5].name, "antegrad_chrome_trace");
  EXPECT_EQ(all[5].encoding, "json");
  EXPECT_GT(nlohmann::json::parse(all[5].payload)["traceEvents"].size(), 10U);
  EXPECT_EQ(all[0].id.frame, all[11].id.frame);
  EXPECT_EQ(all[5].id.compile, 0);
  EXPECT_EQ(all[6].id.compile, 1);
}

}  // namespace trace_test
}  // namespace antegrad::testing
