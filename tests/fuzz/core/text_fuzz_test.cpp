#include <bit>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "cache/bundle.h"
#include "explain/record.h"
#include "graph/call_plan.h"
#include "graph/compare.h"
#include "graph/hash.h"
#include "graph/pack.h"
#include "graph/parse.h"
#include "partition/default_partition.h"
#include "shrink.h"

namespace antegrad::testing {
namespace text_fuzz_test {

/// Random arguments of every kind, including unusual ones.
class RandomAttr {
 public:
  explicit RandomAttr(uint64_t seed) : random_(seed) {}

  Attr operator()() {
    switch (below(20)) {
      case 0: return attr::None{};
      case 1: return number();
      case 2: return any_double();
      case 3: return below(2) == 0;
      case 4: return std::complex<double>(any_double(), any_double());
      case 5: return string();
      case 6: return static_cast<DType>(below(20));
      case 7: return attr::Layout{string()};
      case 8: return attr::MemoryFormat{string()};
      case 9: return device();
      case 10: return attr::Generator{below(100) - 1};
      case 11: return attr::Opaque{below(100) - 1};
      case 12: return scalar();
      case 13: return attr::WrappedNumber{scalar(), static_cast<DType>(below(20))};
      case 14: return list<IntExpr>([this] { return number(); });
      case 15: return list<double>([this] { return any_double(); });
      case 16: return list<bool>([this] { return below(2) == 0; });
      case 17: return list<std::string>([this] { return string(); });
      case 18: return list<attr::Scalar>([this] { return scalar(); });
      default: return attr::InputList{std::vector<bool>(static_cast<size_t>(below(3)), false)};
    }
  }

  IntExpr number() {
    const IntExpr symbol = IntExpr::symbol(below(2));
    const auto any = static_cast<int64_t>(random_() >> below(64));
    switch (below(6)) {
      case 0: return any;
      case 1: return -(any / 2);
      case 2: return symbol * below(9) + below(9);
      case 3: return IntExpr::floor_div(symbol + below(5), 1 + below(5));
      case 4: return IntExpr::mod(symbol * symbol, 1 + below(5));
      default: return IntExpr::min(IntExpr::max(symbol, below(5)), IntExpr::symbol(1) - 3);
    }
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  double any_double() { return std::bit_cast<double>(random_() << below(60)); }
  std::string string() {
    std::string text;
    for (int i = below(6); i > 0; --i) text += static_cast<char>(below(256));
    return text;
  }
  Device device() {
    return {static_cast<DeviceKind>(below(4)), static_cast<int16_t>(below(5) - 1)};
  }
  attr::Scalar scalar() {
    switch (below(4)) {
      case 0: return {number()};
      case 1: return {any_double()};
      case 2: return {below(2) == 0};
      default: return {std::complex<double>(any_double(), any_double())};
    }
  }
  template <class T, class Make>
  std::vector<T> list(Make make) {
    std::vector<T> result;
    for (int i = below(4); i > 0; --i) result.push_back(make());
    return result;
  }

  std::mt19937_64 random_;
};

// What packing loses or changes; empty if nothing.
std::string packing_difference(const Graph& graph) {
  const PackedGraph packed(graph);
  const Graph again = packed.unpack();
  if (std::string wrong = first_difference(again, graph); !wrong.empty()) return wrong;
  if (to_text(again) != to_text(graph)) return "another text after packing";
  if (structural_hash(again) != structural_hash(graph)) return "another hash after packing";
  return PackedGraph(again) == packed ? "" : "packed again, it is another";
}

int cases(int fast) { return long_tests() ? 20 * fast : fast; }

TEST(TextFuzz, RandomGraphsPrintParsePackAndHashTheSame) {
  hold_for_random_graphs(600, 40, [](const Graph& graph) -> std::string {
    const Partition partition = default_partition(graph);
    for (const Graph* part : {&graph, &partition.forward, &partition.backward}) {
      const Graph again = parse_graph(to_text(*part));
      if (const std::string wrong = first_difference(again, *part); !wrong.empty()) return wrong;
      if (structural_hash(again) != structural_hash(*part)) return "the hash changed";
      if (std::string wrong = packing_difference(*part); !wrong.empty()) return wrong;
    }
    return "";
  });
}

TEST(TextFuzz, RandomArgumentsAndMetadataReadBackToTheBit) {
  for (int seed = 0; seed < cases(2000); ++seed) {
    RandomAttr any(static_cast<uint64_t>(seed));
    Graph graph;
    graph.name = std::string("odd \"name\"\n\0", 12);
    graph.symbols = {"s0", "other"};
    Input input;
    TensorMeta meta;
    meta.sizes = {any.number(), any.number()};
    meta.strides = {any.number(), any.number()};
    meta.offset = any.number();
    input.value = graph.add_tensor(meta);
    input.source = {static_cast<Source::Kind>(seed % 7), seed % 5 - 1,
                    "n\"" + std::to_string(seed)};
    graph.inputs.push_back(input);
    Node node;
    node.op = Op::intern("fuzz::arguments.default");
    for (int i = 0; i < 6; ++i) node.args.push_back(any());
    graph.nodes.push_back(node);
    const std::string text = to_text(graph);
    const Graph again = parse_graph(text);
    ASSERT_EQ(first_difference(again, graph), "") << "seed " << seed << "\n" << text;
    ASSERT_EQ(to_text(again), text);
    ASSERT_EQ(structural_hash(again), structural_hash(graph));
    ASSERT_EQ(packing_difference(graph), "") << "seed " << seed << "\n" << text;
  }
}

/// Cuts, doubles, swaps and overwrites pieces of a text.
std::string damaged(std::string text, std::mt19937_64& random) {
  static constexpr std::string_view kPieces[] = {"%",
                                                 "(",
                                                 ")",
                                                 "[",
                                                 "]",
                                                 "{",
                                                 "}",
                                                 ",",
                                                 ";",
                                                 "=",
                                                 "none",
                                                 "-",
                                                 "9999999999999999999",
                                                 "s0",
                                                 "&",
                                                 "~",
                                                 "\n",
                                                 "\"",
                                                 "\\x",
                                                 "token",
                                                 "//",
                                                 "min(",
                                                 "0.",
                                                 "#"};
  const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  for (size_t i = 1 + below(4); i > 0 && !text.empty(); --i) {
    const size_t place = below(text.size());
    switch (below(4)) {
      case 0: text.erase(place, 1 + below(8)); break;
      case 1: text.insert(place, text.substr(below(text.size()), below(30))); break;
      case 2: text.insert(place, kPieces[below(std::size(kPieces))]); break;
      default: text[place] = static_cast<char>(random()); break;
    }
  }
  return text;
}

TEST(TextFuzz, DamagedTextParsesOrIsAGraphErrorWithItsPlace) {
  int parsed = 0;
  int refused = 0;
  for (int seed = 0; seed < cases(3000); ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const Graph graph = RandomGraph(static_cast<uint64_t>(seed % 50)).joint(8);
    const std::string text = damaged(to_text(graph), random);
    try {
      // What still parses must print and parse again.
      const Graph again = parse_graph(text, "damaged");
      ASSERT_EQ(first_difference(parse_graph(to_text(again)), again), "") << "seed " << seed;
      ++parsed;
    } catch (const GraphError& error) {
      ASSERT_NE(std::string(error.what()).find(" in damaged, line "), std::string::npos)
          << "seed " << seed << ": " << error.what();
      ++refused;
    }
  }
  EXPECT_GT(parsed, 0);
  EXPECT_GT(refused, 0);
}

// A reader that takes damaged text for what it is: it returns, or throws one of ours.
template <class Read>
void expect_read_or_refused(const std::function<std::string(uint64_t)>& text_of, const Read& read) {
  int accepted = 0, refused = 0;
  for (int seed = 0; seed < cases(2000); ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const std::string text = damaged(text_of(static_cast<uint64_t>(seed % 50)), random);
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      read(text);
      ++accepted;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
}

TEST(TextFuzz, DamagedRecordsAreReadOrRefused) {
  expect_read_or_refused(
      [](uint64_t seed) {
        const Graph graph = RandomGraph(seed).joint(8);
        PartitionChoice choice;
        choice.measured.scratch = {0, 64, 128};
        choice.measured.seconds = {-1, 0.5};
        auto record = make_record(default_partition(graph), choice);
        record.more["schedule"] = {{"planned", true}, {"forget", {{1, 2}}}};
        return to_text(record);
      },
      [](const std::string& text) {
        const auto record = parse_record(text);
        EXPECT_EQ(to_text(parse_record(to_text(record))), to_text(record));
      });
}

TEST(TextFuzz, DamagedCallPlansAreReadOrRefused) {
  expect_read_or_refused(
      [](uint64_t seed) { return to_text(default_partition(RandomGraph(seed).joint(8)).plan); },
      [](const std::string& text) {
        const auto plan = parse_call_plan(text);
        EXPECT_EQ(parse_call_plan(to_text(plan)), plan);
      });
}

// Their sum is right, as somebody would make it who wants them to be read.
TEST(TextFuzz, DamagedBundlesAreReadOrRefused) {
  expect_read_or_refused(
      [](uint64_t) {
        Bundle bundle;
        bundle.kernels.compiler = {.command = {"cc"}, .version = "cc"};
        bundle.kernels.libraries = {{"a", std::string(9, 'x')}, {"b", "y"}};
        bundle.kernels.facts = {"proven 1"};
        bundle.plans = {{std::string(kPlanRecord), "{}"}};
        std::string text = bundle_text(bundle);
        const size_t head = text.find('\n') + 1;
        return text.substr(head, text.find('\n', head) - head);
      },
      [](const std::string& head) {
        const std::string all = "antegrad bundle 1\n" + head + "\n" + std::string(9, 'x') + "y";
        bundle_of_text(all + "\nsum " + to_string(hash_of_bytes(all)) + "\n");
      });
}

}  // namespace text_fuzz_test
}  // namespace antegrad::testing
