// The memory of a recorded program, with a graph of the CPU that writes where it wrote first.

#include "runtime/recorded_program.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "support/bits.h"

namespace antegrad::testing {
namespace recorded_program_test {

using List = std::vector<at::Tensor>;
using runtime::RecordedProgram;
using runtime::RecordingRules;

// Runs the nodes of a program again, and writes what they return into what they returned first.
class Again final : public torch_compat::DeviceGraph {
 public:
  explicit Again(std::function<void()> run) : run_(std::move(run)) {}
  void replay() const override { run_(); }
  int64_t bytes() const override { return 0; }
  int64_t size() const override { return 1; }

 private:
  std::function<void()> run_;
};

struct Recording {
  std::vector<bool> copied = {}, stays = {};
};

class Recorder {
 public:
  // `nodes` must return new memory.
  Recorder(const List& inputs, Recording what, RecordedProgram::Nodes nodes)
      : nodes_(std::move(nodes)) {
    RecordingRules rules{.device = at::kCPU, .copied = std::move(what.copied)};
    rules.stays = std::move(what.stays);
    rules.record = [this](c10::Device, const std::function<void()>& run) {
      run();
      return std::make_unique<Again>([this] { write_again(); });
    };
    program_ = std::make_unique<RecordedProgram>(inputs, rules, [this](List given) {
      // Without the count of owners that the program looks at.
      for (const auto& input : given) inputs_.push_back(input);
      auto made = nodes_(std::move(given));
      for (const auto& output : made) addresses_.push_back(output.mutable_data_ptr());
      return made;
    });
  }
  const RecordedProgram& program() const { return *program_; }

 private:
  void write_again() {
    const auto made = nodes_(inputs_);
    for (size_t i = 0; i < made.size(); ++i) {
      if (made[i].data_ptr() == addresses_[i]) continue;  // in the memory of an input
      std::memcpy(addresses_[i], made[i].const_data_ptr(), made[i].nbytes());
    }
  }

  RecordedProgram::Nodes nodes_;
  List inputs_;
  std::vector<void*> addresses_;
  std::unique_ptr<RecordedProgram> program_;
};

List doubled(const List& inputs) { return {inputs[0] * 2}; }

TEST(RecordedProgram, ResultsOwnTheirMemory) {
  const auto x = at::randn({5});
  const Recorder recorder({x}, {.copied = {false}, .stays = {false}}, doubled);
  const auto& program = recorder.program();
  ASSERT_TRUE(program.fits({x}));
  const auto first = program.run({x})[0];
  const auto kept = first.clone();
  x.add_(1);
  const auto second = program.run({x})[0];
  EXPECT_TRUE(same_bits(first, kept));
  EXPECT_TRUE(same_bits(second, x * 2));
  EXPECT_FALSE(program.is_held());
}

TEST(RecordedProgram, ReadsInputsThatDoNotMoveWhereTheyAre) {
  const auto x = at::randn({5}), other = at::randn({5});
  const Recorder recorder({x}, {.copied = {false}, .stays = {false}}, doubled);
  EXPECT_FALSE(recorder.program().fits({other}));
  EXPECT_FALSE(recorder.program().fits({x.narrow(0, 0, 4)}));
  EXPECT_FALSE(recorder.program().fits({at::Tensor()}));
}

// A tensor whose address has the same place in 256 bytes, `offset` elements into its storage.
at::Tensor at_place_of(const at::Tensor& model, int64_t offset) {
  auto memory = at::randn({1024});
  const auto place = [&](int64_t i) {
    return reinterpret_cast<uint64_t>(memory.data_ptr<float>() + i) % 256;
  };
  const auto wanted = reinterpret_cast<uint64_t>(model.data_ptr()) % 256;
  while (place(offset) != wanted) ++offset;
  return memory.narrow(0, offset, model.numel()).view(model.sizes());
}

TEST(RecordedProgram, CopiesInputsThatMove) {
  const auto x = at::randn({8, 3});
  const Recorder recorder({x.t()}, {.copied = {true}, .stays = {false}},
                          [](const List& inputs) { return List{(inputs[0] * 2).contiguous()}; });
  for (const int64_t offset : {0, 3, 100}) {
    const auto other = at_place_of(x, offset).t();
    ASSERT_TRUE(recorder.program().fits({other}));
    EXPECT_TRUE(same_bits(recorder.program().run({other})[0], other * 2));
  }
}

TEST(RecordedProgram, KeepsThePlaceOfACopyIn256Bytes) {
  const auto memory = at::randn({300});
  const auto x = memory.narrow(0, 7, 100);
  const void* read = nullptr;
  const Recorder recorder({x}, {.copied = {true}, .stays = {false}}, [&](const List& inputs) {
    read = inputs[0].const_data_ptr();
    EXPECT_EQ(inputs[0].storage_offset(), 7);
    return List{inputs[0] * 2};
  });
  EXPECT_NE(read, x.const_data_ptr());
  EXPECT_EQ(reinterpret_cast<uint64_t>(read) % 256,
            reinterpret_cast<uint64_t>(x.const_data_ptr()) % 256);
  EXPECT_FALSE(recorder.program().fits({memory.narrow(0, 8, 100)}));
}

TEST(RecordedProgram, CopiesExpandedInputs) {
  const auto one = at::randn({1});
  const auto x = one.expand({4, 6});
  const Recorder recorder({x}, {.copied = {true}, .stays = {false}}, doubled);
  EXPECT_TRUE(same_bits(recorder.program().run({x})[0], x * 2));
}

TEST(RecordedProgram, WhatStaysIsHeldUntilNobodyReadsIt) {
  const auto x = at::randn({5});
  const Recorder recorder({x}, {.copied = {false}, .stays = {true}}, doubled);
  const auto& program = recorder.program();
  EXPECT_FALSE(program.is_held());
  auto saved = program.run({x});
  EXPECT_TRUE(program.is_held());
  const auto view = saved[0].slice(0, 1);
  saved.clear();
  EXPECT_TRUE(program.is_held()) << "a view holds it";
  EXPECT_TRUE(same_bits(view, (x * 2).slice(0, 1)));
}

TEST(RecordedProgram, OutputsThatShareMemoryStillDo) {
  const auto x = at::randn({4, 5});
  const auto nodes = [](const List& inputs) {
    const at::Tensor y = inputs[0] * 2;
    return List{y, y.t(), y};
  };
  // A result shows what is saved, so neither stays.
  const Recorder recorder({x}, {.copied = {false}, .stays = {false, true, true}}, nodes);
  const auto found = recorder.program().run({x});
  EXPECT_FALSE(recorder.program().is_held());
  EXPECT_TRUE(found[0].is_alias_of(found[1]));
  EXPECT_TRUE(found[0].is_same(found[2]));
  EXPECT_TRUE(same_bits(found[0], x * 2));
  EXPECT_TRUE(same_bits(found[1], (x * 2).t()));
}

TEST(RecordedProgram, OutputsInTheMemoryOfAnInput) {
  const auto nodes = [](const List& inputs) { return List{inputs[0].mul_(2)}; };
  const auto x = at::ones({5});
  {
    const Recorder fixed({x}, {.copied = {false}, .stays = {false}}, nodes);
    const auto before = x.clone();
    const auto found = fixed.program().run({x})[0];
    EXPECT_TRUE(found.is_alias_of(x));
    EXPECT_TRUE(same_bits(x, before * 2));
  }
  const Recorder moving({x}, {.copied = {true}, .stays = {false}}, nodes);
  const auto other = at_place_of(x, 1);
  const auto before = other.clone();
  const auto found = moving.program().run({other})[0];
  EXPECT_FALSE(found.is_alias_of(other)) << "the copy was written";
  EXPECT_TRUE(same_bits(other, before));
  EXPECT_TRUE(same_bits(found, before * 2));
}

TEST(RecordedProgram, UndefinedTensorsAndEmptyOnes) {
  const auto x = at::randn({0, 3});
  const auto nodes = [](const List& inputs) { return List{inputs[1] * 2, at::Tensor()}; };
  RecordingRules rules{.device = at::kCPU, .copied = {true, true}, .stays = {false, false}};
  rules.record = [](c10::Device, const std::function<void()>& run) {
    run();
    return std::make_unique<Again>([] {});
  };
  const RecordedProgram program({at::Tensor(), x}, rules, nodes);
  const auto found = program.run({at::Tensor(), x});
  EXPECT_EQ(found[0].sizes(), x.sizes());
  EXPECT_FALSE(found[1].defined());
}

TEST(RecordedProgram, RefusesLazyBits) {
  const auto x = at::randn({3}, at::kComplexFloat);
  const auto nodes = [](const List& inputs) { return List{(inputs[0] * 2).conj()}; };
  RecordingRules rules{.device = at::kCPU, .copied = {false}, .stays = {false}};
  rules.record = [](c10::Device, const std::function<void()>& run) {
    run();
    return std::make_unique<Again>([] {});
  };
  EXPECT_THROW(RecordedProgram({x}, rules, nodes), c10::Error);
}

}  // namespace recorded_program_test
}  // namespace antegrad::testing
