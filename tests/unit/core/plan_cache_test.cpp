// Plans kept between processes: by key, whole or not at all, and within a bound.

#include "cache/plan_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>

#include "cache/build_id.h"
#include "files/private_folder.h"
#include "kernel_files.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace plan_cache_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string key(const std::string& graph) { return std::string(kPlanRecord) + graph + "\n"; }

class Plans : public ::testing::Test {
 protected:
  std::string file(const std::string& of) const {
    return folder_ + "/" + name_of_plan(of) + kPlanSuffix;
  }

  TemporaryFolder temporary_;
  std::string folder_ = temporary_ / "plans";
  PlanCache cache_;
  const std::string key_ = key("graph 1"), plan_ = "{\n  \"saved\": [1]\n}";
};

TEST_F(Plans, AreFoundByTheirWholeKeyInAnotherProcess) {
  EXPECT_EQ(cache_.find(key_, folder_).plan, "");
  EXPECT_EQ(cache_.find(key_, folder_).damage, "");
  EXPECT_EQ(cache_.keep(key_, plan_, folder_), "");
  PlanCache other;
  const auto found = other.find(key_, folder_);
  EXPECT_EQ(found.plan, plan_);
  EXPECT_EQ(found.from, "the folder");
  EXPECT_EQ(other.find(key("graph 2"), folder_).plan, "");
}

TEST_F(Plans, OfAnotherKeyAreNotTakenForThis) {
  cache_.keep(key_, plan_, folder_);
  const auto other = key("graph 2");
  fs::rename(file(key_), file(other));
  const auto found = cache_.find(other, folder_);
  EXPECT_EQ(found.plan, "");
  EXPECT_THAT(found.damage, HasSubstr("not what its record says"));
}

TEST_F(Plans, ThatAreDamagedAreReplaced) {
  cache_.keep(key_, plan_, folder_);
  const std::string whole = read_text(file(key_));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 8);
    write_text(file(key_), changed);
    EXPECT_EQ(cache_.find(key_, folder_).plan, "") << i;
    write_text(file(key_), whole.substr(0, i));
    EXPECT_EQ(cache_.find(key_, folder_).plan, "") << i;
  }
  EXPECT_EQ(cache_.keep(key_, plan_, folder_), "");
  EXPECT_EQ(cache_.find(key_, folder_).plan, plan_);
}

TEST_F(Plans, WithoutAFolderAreNotKept) {
  for (const std::string folder : {"", "/proc/none"}) {
    EXPECT_NE(cache_.keep(key_, plan_, folder), "") << folder;
    EXPECT_EQ(cache_.find(key_, folder).plan, "") << folder;
    EXPECT_EQ(cache_.find(key_, folder).damage, "") << folder;
  }
}

TEST_F(Plans, AreInUseWhileTheirProgramsLive) {
  const auto live = [&](const std::string& of) {
    auto made = std::make_shared<const LivePlan>(LivePlan{of, [this] { return plan_; }});
    cache_.add(made);
    return made;
  };
  const auto first = live(key_), again = live(key_);
  EXPECT_THAT(cache_.in_use(), ElementsAre(KeptPlan{key_, plan_}));
  for (int i = 0; i < 1000; ++i) live(key(std::to_string(i)));
  auto second = live(key("2"));
  EXPECT_EQ(cache_.in_use().size(), 2U);
  second.reset();
  EXPECT_THAT(cache_.in_use(), ElementsAre(KeptPlan{key_, plan_}));
}

TEST_F(Plans, SaysInWhatTheNearestBundledKeyDiffers) {
  EXPECT_EQ(cache_.why_not_bundled("graph 1\nthreads 2\n"), "");
  cache_.take({{"graph 1\nthreads 4\n", "a"}, {"graph 7\nthreads 8\n", "b"}});
  EXPECT_EQ(cache_.why_not_bundled("graph 1\nthreads 2\n"),
            "\"threads 4\" instead of \"threads 2\"");
  EXPECT_EQ(cache_.why_not_bundled("graph 7\nthreads 8x"),
            "\"threads 8\" instead of \"threads 8x\"");
}

TEST_F(Plans, OfABundleComeFirstAndNeedNoFolder) {
  cache_.take({{key_, "bundled"}});
  EXPECT_THAT(cache_.in_use(), IsEmpty());
  const auto found = cache_.find(key_, "/proc/none");
  EXPECT_EQ(found.plan, "bundled");
  EXPECT_EQ(found.from, "a bundle");
  EXPECT_EQ(cache_.find(key("graph 2"), folder_).plan, "");
}

TEST_F(Plans, TakeNoMoreThanTheirBound) {
  const std::string large(kMostPlanBytes / 3, 'x');
  for (int i = 0; i < 5; ++i) EXPECT_EQ(cache_.keep(key(std::to_string(i)), large, folder_), "");
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    bytes += static_cast<int64_t>(entry.file_size());
  }
  EXPECT_LE(bytes, kMostPlanBytes);
  EXPECT_EQ(cache_.find(key("4"), folder_).plan, large);
}

TEST_F(Plans, CanBeTakenApartWithoutTheirKey) {
  cache_.keep(key_, plan_, folder_);
  const std::string whole = read_text(file(key_));
  const auto parts = parts_of_entry(whole, kPlanRecord);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->contents, plan_);
  EXPECT_EQ(parts->record, key_);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(parts_of_entry(whole.substr(0, i), kPlanRecord)) << i;
  }
  EXPECT_FALSE(parts_of_entry(whole + "\n", kPlanRecord));
  EXPECT_FALSE(parts_of_entry(whole, "antegrad kernels"));
}

int here = 0;

TEST(BuildId, IsThatOfTheFileThatHoldsTheAddress) {
  const std::string own = build_id_of(&here);
  EXPECT_NE(own, "");
  EXPECT_EQ(build_id_of(reinterpret_cast<const void*>(&key)), own);
  EXPECT_NE(build_id_of(reinterpret_cast<const void*>(&::mkdir)), own);
  EXPECT_EQ(build_id_of(nullptr), "");
  int on_the_stack = 0;
  EXPECT_EQ(build_id_of(&on_the_stack), "");
}

}  // namespace plan_cache_test
}  // namespace antegrad::testing
