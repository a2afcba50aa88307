#include "support/exact.h"

#include <ATen/core/grad_mode.h>
#include <antegrad/error.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>

#include "capture/stand_in.h"
#include "support/bits.h"
#include "support/exact_exams.h"
#include "support/options.h"

namespace antegrad::testing {
namespace {

constexpr uint64_t kWorldSeed = 20250117;
constexpr int kRefusalCalls = 4;  // the audit may be in the second or the fourth call
constexpr size_t kShownLines = 12;

World make_world(const Case& c) {
  torch::manual_seed(kWorldSeed);
  return c.world();
}

using Lines = std::vector<std::string>;

void check_stand_ins(Lines& lines) {
  if (const auto alive = capture::live_stand_ins(); alive != 0) {
    lines.push_back(std::to_string(alive) + " stand-ins alive after the call");
  }
}

void check_report(const Step& step, Lines& lines) {
  for (const auto& [reason, count] : step.report().eager_reasons) {
    lines.push_back("ran eagerly " + std::to_string(count) + " times: " + reason);
  }
}

// Whether one compiled callable serves all worlds. A function that takes tensors from its world
// must be compiled for each.
bool serves_all(const World& world) {
  return world.held.empty() && !world.module && world.generators.empty();
}

Record take(const Case& c, const Exam& exam, World world, Step& step) {
  Record record;
  Run run(c, std::move(world), step);
  const Record::Scope scope(record, exam.name);
  exam.examine(run, record);
  return record;
}

// Checks that eager does what the case expects. An unexpected error would make the case useless.
Lines check_eager(const Case& c, Run& run) {
  using Kind = Expectation::Kind;
  Record record;
  const bool called = run.call(record);
  const auto message = record.last_error();
  if (called == (c.expect.kind == Kind::call_throws)) {
    return {"the case is wrong: in eager the call " + (called ? "throws nothing" : message)};
  }
  if (!called) {
    if (message.find(c.expect.words) != std::string::npos) return {};
    return {"the case is wrong: in eager the call throws " + message};
  }
  return {};
}

Lines check_eager_backward(const Case& c, const Record& record) {
  if (c.expect.kind == Expectation::Kind::call_throws) return {};
  const auto& message = record.last_error();
  const bool throws = c.expect.kind == Expectation::Kind::backward_throws;
  if (throws != message.empty() && (!throws || message.find(c.expect.words) != std::string::npos)) {
    return {};
  }
  return {"the case is wrong: in eager the backward throws '" + message + "'"};
}

// Throws what eager threw and does nothing else, since a failed call may leave the world unchanged.
class Untouched final : public Step {
 public:
  explicit Untouched(Step& eager) : eager_(eager) {}
  Leaves call(World& world) override {
    auto spent = world;  // eager must run to throw; it uses tensors that nothing else refers to
    for (auto* list : {&spent.inputs, &spent.held, &spent.others}) *list = clone_all(*list);
    const auto generator = generator_state();
    try {
      return eager_.call(spent);
    } catch (...) {
      set_generator_state(generator);
      throw;
    }
  }
  Report report() const override { return {}; }

 private:
  Step& eager_;
};

// Eager's record of an exam, and other acceptable records.
struct Expected {
  Record record;
  std::optional<Record> untouched;  // a failed call
  std::vector<Record> undisturbed;  // if eager's backward threw because of something done before it
};

constexpr const char* kOverwritten = "modified by an inplace operation";

bool was_disturbed(const Record& record) {
  return record.threw(kOverwritten) || record.threw("backward through the graph a second time");
}

Expected expect(const Case& c, const Exam& exam, Step& eager) {
  using Kind = Expectation::Kind;
  Expected expected{take(c, exam, make_world(c), eager), {}, {}};
  if (c.expect.kind == Kind::call_throws) {
    Untouched untouched(eager);
    expected.untouched = take(c, exam, make_world(c), untouched);
  }
  // If eager always refuses a backward, there are no correct values to compare with.
  if (c.expect.kind == Kind::equal && was_disturbed(expected.record)) {
    for (const auto& examine : exam.undisturbed) {
      expected.undisturbed.push_back(take(c, {exam.name, examine}, make_world(c), eager));
    }
  }
  return expected;
}

Lines compare_record(const Expected& expected, const Record& found, Leniencies& used) {
  Leniencies now;
  auto lines = Record::compare(expected.record, found, &now);
  if (!lines.empty() && expected.untouched) {
    if (Record::compare(*expected.untouched, found).empty()) return {};
  }
  for (const auto& undisturbed : expected.undisturbed) {
    if (lines.empty()) break;
    Leniencies other{1};
    if (!Record::compare(undisturbed, found, &other).empty()) continue;
    now = other;
    lines.clear();
  }
  // Recomputation reads arguments that eager does not save; a write to one of these is refused
  // (docs/partition.md).
  if (!lines.empty() && tested_options().partition != Partitioner::as_written &&
      found.threw(kOverwritten)) {
    ++now.read_again;
    lines.clear();
  }
  used += now;
  return lines;
}

// Runs an exam on a new world with the candidate's step, or with `shared` if it may be reused.
Lines compare_exam(const Case& c, const Candidate& candidate, const Exam& exam,
                   const Expected& expected, Audit audit, std::unique_ptr<Step>& shared,
                   Leniencies& used) {
  auto world = make_world(c);
  // A candidate that does not compile has no options.
  const auto options = candidate.refuses ? tested_options() : Options();
  const auto make = [&] { return candidate.make(c, world, Options(options).with_audit(audit)); };
  std::unique_ptr<Step> own;
  const bool serve = serves_all(world) && audit == Audit::pow2;
  if (!serve) {
    own = make();
  } else if (!shared) {
    shared = make();
  }
  Step& step = serve ? *shared : *own;
  const auto found = take(c, exam, std::move(world), step);
  auto lines = compare_record(expected, found, used);
  check_stand_ins(lines);
  if (own) check_report(*own, lines);
  return lines;
}

Record picture_of(const Run& run) {
  Record record;
  picture(run, record);
  return record;
}

// Checks that one of our messages contains these words and has three parts: expected, found, what
// to do.
void check_text(const std::exception& error, const std::string& words, Lines& lines) {
  const std::string text = error.what();
  const auto lacks = [&](const std::string& part) {
    if (text.find(part) == std::string::npos) lines.push_back("'" + part + "' not in: " + text);
  };
  lacks(words);
  lacks("expected ");
  lacks("; found ");
  const auto found = text.find("; found ");
  if (found != std::string::npos && text.find("; ", found + 1) == std::string::npos) {
    lines.push_back("no remedy in: " + text);
  }
}

// Checks that asking for the gradient of a tensor that the region wrote and used further raises an
// error and changes nothing.
Lines compare_inner(const Case& c, const Candidate& candidate) {
  Lines lines;
  for (const auto& name : c.inner) {
    auto world = make_world(c);
    const auto step = candidate.make(c, world, {});
    Run run(c, std::move(world), *step);
    run.call_or_throw();
    const auto before = picture_of(run);
    List roots, tangents, asked;
    for (const auto& root : run.roots()) {
      roots.push_back(root.tensor);
      tangents.push_back(at::ones_like(root.tensor));
    }
    for (const auto& s : run.subjects()) {
      if (s.name == name) asked.push_back(s.tensor);
    }
    try {
      torch::autograd::grad(roots, asked, tangents, /*retain_graph=*/true, /*create_graph=*/false,
                            /*allow_unused=*/true);
      lines.push_back("the gradient of " + name + " is given");
    } catch (const BackwardError& error) {
      check_text(error, "other results were computed from", lines);
    }
    for (auto& line : Record::compare(before, picture_of(run))) {
      lines.push_back("the gradient of " + name + " is refused, touched: " + line);
    }
  }
  return lines;
}

Lines compare_equal(const Case& c, const Candidate& candidate, Leniencies& used) {
  const auto eager = c.body.eager();
  std::vector<Exam> exams;
  {
    Run probe(c, make_world(c), *eager);
    if (auto wrong = check_eager(c, probe); !wrong.empty()) return wrong;
    exams = exams_for(probe);
  }
  Lines lines;
  std::unique_ptr<Step> shared;
  bool went_back = false;
  for (const auto& exam : exams) {
    const auto expected = expect(c, exam, *eager);
    if (exam.name == "gradients" && !std::exchange(went_back, true)) {
      if (auto wrong = check_eager_backward(c, expected.record); !wrong.empty()) return wrong;
    }
    for (const auto audit : {Audit::pow2, Audit::off}) {
      if (audit == Audit::off && exam.name != kRepeated) continue;
      for (auto& line : compare_exam(c, candidate, exam, expected, audit, shared, used)) {
        lines.push_back(std::move(line));
      }
    }
  }
  if (shared) check_report(*shared, lines);
  if (!went_back && c.expect.kind == Expectation::Kind::backward_throws) {
    lines.push_back("the case is wrong: nothing to differentiate");
  }
  return lines;
}

// Calls until one is refused. The error must be the expected one, and the world unchanged.
Lines compare_refused(const Case& c, const Candidate& candidate) {
  auto world = make_world(c);
  const auto step = candidate.make(c, world, {});
  Run run(c, std::move(world), *step);
  for (int i = 0; i < kRefusalCalls; ++i) {
    run.forget();
    run.seed();
    const auto before = picture_of(run);
    try {
      run.call_or_throw();
    } catch (const std::exception& error) {
      Lines lines;
      if (!c.expect.is_type(error)) lines.push_back("another error: " + first_line(error));
      check_text(error, c.expect.words, lines);
      for (auto& line : Record::compare(before, picture_of(run))) {
        lines.push_back("touched: " + line);
      }
      run.forget();
      check_stand_ins(lines);
      return lines;
    }
  }
  return {"not refused"};
}

// With OnRefusal::eager the call equals eager and is counted with its reason.
Lines compare_eager_option(const Case& c, const Candidate& candidate) {
  const Exam exam = {"with OnRefusal::eager", [](Run& run, Record& record) {
                       if (run.call(record)) picture(run, record);
                     }};
  auto world = make_world(c);
  const auto step = candidate.make(c, world, tested_options().with_on_refusal(OnRefusal::eager));
  const auto eager = c.body.eager();
  auto lines =
      Record::compare(take(c, exam, make_world(c), *eager), take(c, exam, std::move(world), *step));
  const auto report = step->report();
  if (report.eager_calls != 1 || report.eager_reasons.empty()) {
    lines.push_back("with OnRefusal::eager: the eager call is not counted");
  }
  check_stand_ins(lines);
  return lines;
}

// Removes the lines that the case tolerates. Each of its words must match a line.
void tolerate(const Case& c, Lines& lines, Leniencies& used) {
  for (const auto& known : c.tolerated) {
    const auto count = std::erase_if(lines, [&](const std::string& line) {
      return line.find(known.words) != std::string::npos;
    });
    if (count == 0) lines.push_back("tolerated, but not found: " + known.words);
    used.tolerated += static_cast<int64_t>(count);
  }
}

void shorten(Lines& lines) {
  if (lines.size() <= kShownLines) return;
  const auto left = lines.size() - kShownLines;
  lines.resize(kShownLines);
  lines.push_back("... and " + std::to_string(left) + " more");
}

}  // namespace

Candidate compiler() {
  return {[](const Case& c, const World& world, const Options& options) {
            return c.body.compiled(world.module, Options(options).with_verify_graphs(true));
          },
          /*refuses=*/true};
}

Candidate plain(Body other) {
  return {[body = std::move(other)](const Case&, const World&, const Options&) {
    return body.eager();
  }};
}

Candidate plain() {
  return {[](const Case& c, const World&, const Options&) { return c.body.eager(); }};
}

Leniencies& Leniencies::operator+=(const Leniencies& other) {
  values_of_the_call += other.values_of_the_call;
  read_again += other.read_again;
  order_of_sums += other.order_of_sums;
  rounding += other.rounding;
  tolerated += other.tolerated;
  return *this;
}

std::vector<std::string> differences(const Case& c, const Candidate& candidate, bool all_lines,
                                     Leniencies* used) {
  Leniencies ignored;
  if (used == nullptr) used = &ignored;
  const TestedHooks hooks;  // only compiled callables see the hooks
  Lines lines;
  if (candidate.refuses && c.expect.kind == Expectation::Kind::refused) {
    lines = compare_refused(c, candidate);
    if (c.expect.option_eager) {
      for (auto& line : compare_eager_option(c, candidate)) lines.push_back(std::move(line));
    }
  } else {
    lines = compare_equal(c, candidate, *used);
    if (candidate.refuses) {
      for (auto& line : compare_inner(c, candidate)) lines.push_back(std::move(line));
      tolerate(c, lines, *used);
    }
  }
  if (!all_lines) shorten(lines);
  return lines;
}

}  // namespace antegrad::testing
