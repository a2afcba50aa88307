// The slots of a module, and the changes that invalidate the list of them.

#include "guards/module_tree.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace antegrad::testing {
namespace module_tree_test {

using guards::ModuleTree;

struct Net : torch::nn::Module {
  Net() {
    fc = register_module("fc", torch::nn::Linear(2, 3));
    norm = register_module("norm", torch::nn::BatchNorm1d(3));
  }
  torch::nn::Linear fc = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
};

std::string broken(const ModuleTree& tree) {
  std::string why;
  const bool holds = tree.holds(&why);
  EXPECT_EQ(holds, why.empty()) << why;
  EXPECT_EQ(tree.holds(), holds) << why;
  return why;
}

TEST(ModuleTree, ListsParametersAndBuffersByPath) {
  const ModuleTree tree(std::make_shared<Net>());
  std::vector<std::string> names;
  for (const auto& slot : tree.slots()) {
    const bool buffer = slot.source.kind == Source::Kind::buffer;
    names.push_back((buffer ? "buffer " : "parameter ") + slot.source.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"parameter fc.weight", "parameter fc.bias",
                                             "parameter norm.weight", "parameter norm.bias",
                                             "buffer norm.running_mean", "buffer norm.running_var",
                                             "buffer norm.num_batches_tracked"}));
}

TEST(ModuleTree, OfNoModuleIsEmptyAndHolds) {
  const ModuleTree tree(nullptr);
  EXPECT_TRUE(tree.slots().empty());
  EXPECT_EQ(broken(tree), "");
  EXPECT_EQ(tree.find(at::zeros({1})), nullptr);
}

TEST(ModuleTree, FindsASlotByTensorAndByStorage) {
  const auto net = std::make_shared<Net>();
  const ModuleTree tree(net);
  const auto* slot = tree.find(net->fc->bias);
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->source.name, "fc.bias");
  const auto view = net->fc->weight.view(-1);
  EXPECT_EQ(tree.find(view), nullptr);
  const auto* by_storage = tree.find(view.storage().unsafeGetStorageImpl());
  ASSERT_NE(by_storage, nullptr);
  EXPECT_EQ(by_storage->source.name, "fc.weight");
}

TEST(ModuleTree, ChangesOfStructureAreSeen) {
  const auto net = std::make_shared<Net>();
  {
    const ModuleTree tree(net);
    EXPECT_EQ(broken(tree), "");
    net->register_buffer("more", at::zeros({1}));
    EXPECT_EQ(broken(tree), "a parameter or buffer was registered");
  }
  {
    const ModuleTree tree(net);
    net->replace_module("fc", torch::nn::Linear(2, 3));
    EXPECT_EQ(broken(tree), "a submodule was added or replaced");
  }
  {
    const ModuleTree tree(net);
    net->norm->eval();
    EXPECT_EQ(broken(tree), "is_training() of module 'norm.' was true, is false");
    net->norm->train();
    EXPECT_EQ(broken(tree), "");
  }
}

}  // namespace module_tree_test
}  // namespace antegrad::testing
