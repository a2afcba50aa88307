#include "guards/program_cache.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace antegrad::testing::program_cache_test {
namespace {

// An entry that fits one number.
struct Toy {
  int number;
  bool fits(int key, std::string* why) const {
    if (key == number) return true;
    if (why != nullptr) *why = "was " + std::to_string(number) + ", is " + std::to_string(key);
    return false;
  }
};
using Cache = guards::ProgramCache<Toy>;

std::shared_ptr<const Toy> ask(Cache& cache, int key, int64_t limit = 8) {
  return cache.find_or_make(key, limit,
                            [&](const std::string&) { return std::make_shared<const Toy>(key); });
}

TEST(ProgramCache, FindsTheOldestEntryThatFits) {
  Cache cache;
  EXPECT_EQ(cache.find(1), nullptr);
  const auto one = ask(cache, 1);
  const auto two = ask(cache, 2);
  EXPECT_EQ(cache.find(1), one);
  EXPECT_EQ(cache.find(2), two);
  EXPECT_EQ(cache.find(3), nullptr);
  EXPECT_EQ(*cache.entries(), (Cache::Entries{one, two}));
}

TEST(ProgramCache, MakesNothingForAKeyThatFits) {
  Cache cache;
  const auto one = ask(cache, 1);
  const auto found = cache.find_or_make(
      1, 8, [](const std::string&) -> std::shared_ptr<Toy> { throw std::logic_error("made"); });
  EXPECT_EQ(found, one);
}

TEST(ProgramCache, SaysWhyTheNewestEntryDidNotFit) {
  Cache cache;
  std::vector<std::string> asked;
  for (const int key : {1, 2, 3}) {
    cache.find_or_make(key, 8, [&](const std::string& why) {
      asked.push_back(why);
      return std::make_shared<const Toy>(key);
    });
  }
  EXPECT_EQ(asked, (std::vector<std::string>{"", "was 1, is 2", "was 2, is 3"}));
  EXPECT_EQ(cache.misses(), (std::vector<std::string>{"was 1, is 2", "was 2, is 3"}));
}

TEST(ProgramCache, HoldsNoMoreThanItsLimit) {
  Cache cache;
  ask(cache, 1, 1);
  EXPECT_EQ(ask(cache, 2, 1), nullptr);
  EXPECT_EQ(cache.entries()->size(), 1U);
  EXPECT_TRUE(cache.misses().empty());
  EXPECT_NE(ask(cache, 1, 1), nullptr);
}

TEST(ProgramCache, IsUnchangedWhenMakingFails) {
  Cache cache;
  const auto one = ask(cache, 1);
  const auto failing = [](const std::string&) -> std::shared_ptr<const Toy> {
    throw std::runtime_error("no");
  };
  EXPECT_THROW(cache.find_or_make(2, 8, failing), std::runtime_error);
  EXPECT_EQ(*cache.entries(), Cache::Entries{one});
}

TEST(ProgramCache, WhatIsReadStaysWhileEntriesAreDropped) {
  Cache cache;
  const auto one = ask(cache, 1);
  const auto two = ask(cache, 2);
  const auto before = cache.entries();
  cache.drop(*one);
  EXPECT_EQ(*cache.entries(), Cache::Entries{two});
  cache.clear();
  EXPECT_TRUE(cache.entries()->empty());
  EXPECT_EQ(*before, (Cache::Entries{one, two}));
}

}  // namespace
}  // namespace antegrad::testing::program_cache_test
