#include "guards/program_cache.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace antegrad::testing::program_cache_test {
namespace {

// A call with a number. All have one of two hashes.
struct Number {
  explicit Number(int number) : number(number) {}
  uint64_t hash() const { return number % 2; }
  int number;
};

// An entry that fits one number.
struct Toy : guards::Cached {
  explicit Toy(int number) : number(number) {}
  bool fits(const Number& key, std::string* why) const {
    if (key.number == number) return true;
    if (why != nullptr) {
      *why = "was " + std::to_string(number) + ", is " + std::to_string(key.number);
    }
    return false;
  }
  int64_t bytes() const { return 10; }
  bool in_use() const { return used; }

  int number;
  bool used = false;
};
using Cache = guards::ProgramCache<Toy>;

constexpr guards::CacheBounds kAmple{8, 1000};

std::shared_ptr<const Toy> ask(Cache& cache, int key, const guards::CacheBounds& bounds = kAmple) {
  auto entry = cache.find_or_make(Number(key), bounds,
                                  [&](const std::string&) { return std::make_shared<Toy>(key); });
  cache.note_use(*entry);
  return entry;
}

std::vector<int> numbers(const Cache& cache) {
  std::vector<int> numbers;
  for (const auto& entry : *cache.entries()) numbers.push_back(entry->number);
  return numbers;
}

TEST(ProgramCache, FindsTheOldestEntryThatFits) {
  Cache cache;
  EXPECT_EQ(cache.find(Number(1)), nullptr);
  const auto one = ask(cache, 1);
  const auto two = ask(cache, 2);
  EXPECT_EQ(cache.find(Number(1)), one);
  EXPECT_EQ(cache.find(Number(2)), two);
  EXPECT_EQ(cache.find(Number(3)), nullptr);
  EXPECT_EQ(*cache.entries(), (Cache::Entries{one, two}));
}

TEST(ProgramCache, MakesNothingForAKeyThatFits) {
  Cache cache;
  const auto one = ask(cache, 1);
  const auto found = cache.find_or_make(
      Number(1), kAmple,
      [](const std::string&) -> std::shared_ptr<Toy> { throw std::logic_error("made"); });
  EXPECT_EQ(found, one);
}

TEST(ProgramCache, SaysWhyTheNewestEntryDidNotFit) {
  Cache cache;
  std::vector<std::string> asked;
  for (const int key : {1, 2, 3}) {
    cache.find_or_make(Number(key), kAmple, [&](const std::string& why) {
      asked.push_back(why);
      return std::make_shared<Toy>(key);
    });
  }
  EXPECT_EQ(asked, (std::vector<std::string>{"", "was 1, is 2", "was 2, is 3"}));
  EXPECT_EQ(cache.misses(), (std::deque<std::string>{"was 1, is 2", "was 2, is 3"}));
}

TEST(ProgramCache, GivesUpTheEntryUsedLeastRecently) {
  for (const guards::CacheBounds bounds : {guards::CacheBounds{3, 1000}, {100, 35}}) {
    Cache cache;
    for (const int key : {1, 2, 3, 1, 4, 5}) ask(cache, key, bounds);
    EXPECT_EQ(numbers(cache), (std::vector<int>{1, 4, 5}));
    EXPECT_EQ(cache.evictions(), 2);
  }
}

TEST(ProgramCache, FindingAnEntryIsNoUse) {
  Cache cache;
  for (const int key : {1, 2, 3}) ask(cache, key, {3, 1000});
  cache.find(Number(1));
  ask(cache, 4, {3, 1000});
  EXPECT_EQ(numbers(cache), (std::vector<int>{2, 3, 4}));
}

TEST(ProgramCache, KeepsTheNewEntryAndThoseInUse) {
  Cache cache;
  cache.find_or_make(Number(1), kAmple, [&](const std::string&) {
    auto entry = std::make_shared<Toy>(1);
    entry->used = true;
    return entry;
  });
  for (const int key : {2, 3}) ask(cache, key, {1, 1});
  EXPECT_EQ(numbers(cache), (std::vector<int>{1, 3}));
}

TEST(ProgramCache, AddsNothingForNull) {
  Cache cache;
  ask(cache, 1);
  const auto none = [](const std::string&) { return std::shared_ptr<Toy>(); };
  EXPECT_EQ(cache.find_or_make(Number(2), kAmple, none), nullptr);
  EXPECT_EQ(numbers(cache), std::vector<int>{1});
  EXPECT_TRUE(cache.misses().empty());
}

TEST(ProgramCache, RemembersTheNewestMissesOnly) {
  Cache cache;
  for (int key = 0; key < 400; ++key) ask(cache, key);
  EXPECT_EQ(cache.misses().size(), Cache::kMisses);
  EXPECT_EQ(cache.misses().back(), "was 398, is 399");
}

TEST(ProgramCache, IsUnchangedWhenMakingFails) {
  Cache cache;
  const auto one = ask(cache, 1);
  const auto failing = [](const std::string&) -> std::shared_ptr<Toy> {
    throw std::runtime_error("no");
  };
  EXPECT_THROW(cache.find_or_make(Number(2), kAmple, failing), std::runtime_error);
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
