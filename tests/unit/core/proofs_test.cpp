// Proofs are kept between processes, and nothing that others could have written is believed.

#include "kernels/proofs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "support/folder.h"

namespace antegrad::testing {
namespace proofs_test {

namespace fs = std::filesystem;
using kernels::Proofs;

constexpr kernels::RunTimes kTimes{1200, 3400};

class KernelProofs : public ::testing::Test {
 protected:
  std::string file() const { return folder_ + "/proofs-2"; }
  std::string text() const {
    std::ifstream stream(file());
    std::stringstream all;
    all << stream.rdbuf();
    return all.str();
  }

  TemporaryFolder temporary_;
  std::string folder_ = temporary_ / "above/kernels";
  const Hash128 a_ = hash_of_bytes("a"), b_ = hash_of_bytes("b");
};

TEST_F(KernelProofs, AreKept) {
  Proofs proofs(folder_);
  EXPECT_FALSE(proofs.proven(a_));
  proofs.add(a_);
  proofs.add(a_);
  EXPECT_TRUE(proofs.proven(a_));
  const Proofs later(folder_);
  EXPECT_TRUE(later.proven(a_));
  EXPECT_FALSE(later.proven(b_));
  EXPECT_FALSE(later.times(a_));
  EXPECT_EQ(text(), "proven " + to_string(a_) + "\n");
}

TEST_F(KernelProofs, DisproofsAreKept) {
  Proofs(folder_).add_disproof(a_);
  const Proofs later(folder_);
  EXPECT_TRUE(later.disproven(a_));
  EXPECT_FALSE(later.disproven(b_));
  EXPECT_FALSE(later.proven(a_));
  EXPECT_EQ(text(), "disproven " + to_string(a_) + "\n");
}

TEST_F(KernelProofs, TimesAreKept) {
  Proofs proofs(folder_);
  EXPECT_FALSE(proofs.times(a_));
  proofs.add(a_, kTimes);
  proofs.add(a_, kTimes);
  EXPECT_EQ(proofs.times(a_), kTimes);
  const Proofs later(folder_);
  EXPECT_EQ(later.times(a_), kTimes);
  EXPECT_FALSE(later.times(b_));
  EXPECT_FALSE(later.proven(a_));
  EXPECT_EQ(text(), "times " + to_string(a_) + " 1200 3400\n");
}

TEST_F(KernelProofs, TwoProcessesAddToOneList) {
  Proofs one(folder_), other(folder_);
  one.add(a_);
  other.add(b_);
  const Proofs later(folder_);
  EXPECT_TRUE(later.proven(a_) && later.proven(b_));
}

TEST_F(KernelProofs, LinesThatAreNoProofsAreNotUsed) {
  Proofs(folder_).add(a_);
  const std::string b = to_string(b_);
  std::ofstream(file(), std::ios::app) << "rubbish\n"
                                       << b << "\n"
                                       << b << " 1 2\n"
                                       << "proven " << b << " 1\n"
                                       << "proven " << b << "0\n"
                                       << "times " << b << " 1\n"
                                       << "times " << b << " 1 x\n"
                                       << "proven " << b;  // and one without an end
  const Proofs later(folder_);
  EXPECT_TRUE(later.proven(a_));
  EXPECT_FALSE(later.proven(b_));
  EXPECT_FALSE(later.times(b_));
}

TEST_F(KernelProofs, AFileThatOthersCanWriteIsNotUsedAndReplaced) {
  Proofs(folder_).add(a_);
  fs::permissions(file(), fs::perms::all);
  Proofs later(folder_);
  EXPECT_FALSE(later.proven(a_));
  later.add(b_);
  EXPECT_EQ(text(), "proven " + to_string(b_) + "\n");
}

TEST_F(KernelProofs, ALinkIsNotFollowed) {
  Proofs(folder_).add(a_);
  fs::rename(file(), temporary_ / "elsewhere");
  fs::create_symlink(temporary_ / "elsewhere", file());
  Proofs later(folder_);
  EXPECT_FALSE(later.proven(a_));
  later.add(b_);
  EXPECT_FALSE(fs::is_symlink(file()));
}

TEST_F(KernelProofs, AFullListBeginsAnew) {
  Proofs(folder_).add(a_);
  std::ofstream(file(), std::ios::app) << std::string((1 << 20) - 40, '\n');
  Proofs(folder_).add(b_);
  EXPECT_EQ(text(), "proven " + to_string(b_) + "\n");
}

TEST_F(KernelProofs, WithoutAFolderNothingIsKept) {
  Proofs proofs("");
  proofs.add(a_);
  EXPECT_TRUE(proofs.proven(a_));
  EXPECT_FALSE(Proofs("").proven(a_));
}

}  // namespace proofs_test
}  // namespace antegrad::testing
