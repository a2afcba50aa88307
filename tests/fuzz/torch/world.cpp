#include "world.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <antegrad/checkpoint.h>

#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

namespace antegrad::fuzz {
namespace {

// Drawn on the CPU, so that values are the same on all devices.
at::Tensor cpu_values(const Input& input, at::IntArrayRef sizes, uint64_t seed) {
  auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(seed);
  if (input.dtype == at::kBool) {
    return at::randint(2, sizes, generator).to(at::kBool);
  }
  if (!at::isFloatingType(input.dtype) && !at::isComplexType(input.dtype)) {
    return at::randint(5, sizes, generator).to(input.dtype);
  }
  if (input.positive) return (at::rand(sizes, generator) + 0.5).to(input.dtype);
  return at::randn(sizes, generator).clamp_(-3, 3).to(input.dtype);
}

at::Tensor laid_out(const Input& input, uint64_t seed, at::Device device) {
  auto sizes = input.sizes;
  const auto values = [&](const Input& of, at::IntArrayRef shape, uint64_t from) {
    return cpu_values(of, shape, from).to(device);
  };
  if (sizes.empty()) return values(input, sizes, seed);
  switch (input.layout) {
    case Input::Layout::contiguous: return values(input, sizes, seed);
    case Input::Layout::transposed:
      std::swap(sizes.front(), sizes.back());
      return values(input, sizes, seed).transpose(0, -1);
    case Input::Layout::offset:
      sizes[0] += 1;
      return values(input, sizes, seed).narrow(0, 1, sizes[0] - 1);
    case Input::Layout::stepped:
      sizes.back() *= 2;
      return values(input, sizes, seed).slice(-1, 0, sizes.back(), 2);
    case Input::Layout::expanded:
      sizes[0] = 1;
      return values(input, sizes, seed).expand(input.sizes);
  }
  return {};
}

// A call before may have transposed a closure in place, or squeezed it to a number.
at::Tensor related(Input::Relation relation, const at::Tensor& other) {
  const bool is_number = other.defined() && other.dim() == 0;
  switch (relation) {
    case Input::Relation::same: return other;
    case Input::Relation::detached: return other.detach();
    case Input::Relation::flat: return other.reshape(-1);
    case Input::Relation::row: return is_number ? other.detach() : other[0];
    case Input::Relation::narrowed: return is_number ? other.detach() : other.narrow(-1, 0, 1);
    case Input::Relation::turned: return other.transpose(0, -1);
    case Input::Relation::fresh: break;
  }
  return {};
}

}  // namespace

World::World(const Program& program) : program_(program) {
  while (closures_.size() < program.closures.size()) add_closure();
}

const at::Tensor& World::add_closure() {
  closures_.push_back(make(program_.closures.at(closures_.size()), 0, closure_leaves_));
  return closures_.back();
}

void World::begin_call(size_t call) {
  arguments_.clear();
  argument_leaves_.clear();
  for (auto input : program_.arguments) {
    if (call < program_.calls.size()) {
      const auto& others = program_.calls[call].sizes;
      for (auto& size : input.sizes) {
        if (const auto it = others.find(size); it != others.end()) size = it->second;
      }
    }
    arguments_.push_back(make(input, call, argument_leaves_));
  }
}

at::Tensor World::make(const Input& input, size_t call, List& leaves) const {
  if (input.relation != Input::Relation::fresh) {
    const auto& list = input.of.kind == Var::Kind::argument ? arguments_ : closures_;
    return related(input.relation, list.at(static_cast<size_t>(input.of.index)));
  }
  // A non-view tensor with this layout.
  auto tensor = laid_out(input, input.seed + 7919 * call, program_.device).detach();
  if (input.grad == Input::Grad::none) return tensor;
  tensor.set_requires_grad(true);
  leaves.push_back(tensor);
  return input.grad == Input::Grad::leaf ? tensor : tensor * 1;
}

List World::leaves() const {
  auto all = closure_leaves_;
  all.insert(all.end(), argument_leaves_.begin(), argument_leaves_.end());
  return all;
}

const at::Tensor& Interpreter::at(Var var) const {
  switch (var.kind) {
    case Var::Kind::argument: return arguments_.at(static_cast<size_t>(var.index));
    case Var::Kind::closure: return closures_.at(static_cast<size_t>(var.index));
    case Var::Kind::temporary: break;
  }
  return temporaries_.at(var.index);
}

List Interpreter::run(const Statement& statement) {
  std::optional<at::NoGradGuard> no_grad;
  if (statement.no_grad) no_grad.emplace();
  List arguments;
  for (const auto& var : statement.arguments) arguments.push_back(at(var));
  auto made = statement.operation->run({arguments, statement.integers, statement.numbers, flags_});
  for (size_t i = 0; i < statement.makes.size(); ++i) {
    temporaries_[statement.makes[i]] = made.at(i);
  }
  return made;
}

namespace {

// Changes the policy for a third of the operators.
CheckpointOptions options_for(Recompute some) {
  CheckpointOptions options;
  options.policy = [some](std::string_view op) {
    return op.size() % 3 == 0 ? some : Recompute::must_recompute;
  };
  return options;
}

// Checkpoints that open and close between statements, nested or not; half of the programs have
// none. They do nothing outside of a capture.
class RandomBlocks {
 public:
  explicit RandomBlocks(uint64_t seed) : random_(seed * 31 + 7), none_(random_() % 2 == 0) {}
  ~RandomBlocks() {
    while (!open_.empty()) open_.pop_back();
  }
  RandomBlocks(const RandomBlocks&) = delete;
  RandomBlocks& operator=(const RandomBlocks&) = delete;

  void next() {
    if (none_) return;
    const auto dice = random_() % 8;
    if (dice < 2 && !open_.empty()) open_.pop_back();
    if (dice < 1 || dice > 5) {
      open_.push_back(std::make_unique<detail::CapturedBlock>(kinds()[random_() % kinds().size()]));
    }
  }

 private:
  // Mostly checkpoints that recompute everything.
  static const std::vector<CheckpointOptions>& kinds() {
    static const auto* all =
        new std::vector<CheckpointOptions>{{},
                                           {},
                                           options_for(Recompute::as_decided),
                                           options_for(Recompute::must_save),
                                           options_for(Recompute::prefer_save),
                                           options_for(Recompute::prefer_recompute)};
    return *all;
  }

  std::mt19937_64 random_;
  bool none_;
  std::vector<std::unique_ptr<detail::CapturedBlock>> open_;
};

}  // namespace

List run(const Program& program, const List& arguments, const List& closures,
         const std::vector<int64_t>& flags) {
  Interpreter interpreter(arguments, closures, flags);
  RandomBlocks blocks(program.seed);
  for (const auto& statement : program.body) {
    blocks.next();
    interpreter.run(statement);
  }
  List results;
  for (const auto& var : program.results) results.push_back(interpreter.at(var));
  return results;
}

}  // namespace antegrad::fuzz
