#include "partition/budget/archive.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace antegrad::budget {
namespace budget_archive_test {

struct Offer {
  Measure measure;
  Plan plan;
};

std::vector<Offer> random_offers(uint64_t seed, int64_t highest) {
  std::mt19937_64 random(seed);
  std::vector<Offer> offers;
  for (size_t i = 0; i < 1 + seed % 60; ++i) {
    const auto peak = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(highest));
    const auto extra = static_cast<int64_t>(random() % 50);
    offers.push_back({{peak, extra, 0}, {static_cast<Choice>(i)}});
  }
  return offers;
}

Archive archive_of(const std::vector<Offer>& offers) {
  Archive archive;
  for (const Offer& offer : offers) archive.offer(offer.measure, offer.plan);
  return archive;
}

/// The least time of all offers with at most this peak.
std::optional<int64_t> fastest(const std::vector<Offer>& offers, int64_t peak) {
  std::optional<int64_t> least;
  for (const Offer& offer : offers) {
    if (offer.measure.peak > peak) continue;
    least = std::min(least.value_or(offer.measure.extra), offer.measure.extra);
  }
  return least;
}

TEST(BudgetArchive, AnswersWithTheFastestPlanWithinTheBudget) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<Offer> offers = random_offers(seed, 500);
    const Archive archive = archive_of(offers);
    for (int64_t budget = 0; budget <= 510; ++budget) {
      const std::optional<PlanPoint> answer = archive.at_most(budget);
      const std::optional<int64_t> wanted = fastest(offers, budget);
      ASSERT_EQ(answer.has_value(), wanted.has_value()) << seed << " " << budget;
      if (!wanted) continue;
      EXPECT_EQ(answer->extra, *wanted) << seed << " " << budget;
      EXPECT_LE(answer->peak, budget);
      const Measure& measure = offers[answer->plan->front()].measure;
      EXPECT_EQ(measure.peak, answer->peak);
      EXPECT_EQ(measure.extra, answer->extra);
    }
  }
}

/// Of the time and what the bytes of the peak add to it.
TEST(BudgetArchive, CountsTheTimeOfTheBytesOfAPeak) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<Offer> offers = random_offers(seed, 500);
    const Archive archive = archive_of(offers);
    for (const double byte_time : {0.0, 0.05, 0.5, 20.0}) {
      const auto time_of = [&](int64_t peak, int64_t extra) {
        return static_cast<double>(extra) + byte_time * static_cast<double>(peak);
      };
      for (int64_t budget = 0; budget <= 510; budget += 10) {
        double least = std::numeric_limits<double>::infinity();
        for (const Offer& offer : offers) {
          if (offer.measure.peak > budget) continue;
          least = std::min(least, time_of(offer.measure.peak, offer.measure.extra));
        }
        const std::optional<PlanPoint> answer = archive.at_most(budget, byte_time);
        ASSERT_EQ(answer.has_value(), std::isfinite(least)) << seed << " " << budget;
        if (!answer) continue;
        EXPECT_LE(answer->peak, budget);
        EXPECT_DOUBLE_EQ(time_of(answer->peak, answer->extra), least) << seed << " " << budget;
      }
    }
  }
}

/// Peaks of gigabytes that differ by a few bytes.
TEST(BudgetArchive, IsNeverSlowerNorLowerForALargerBudget) {
  constexpr int64_t kHighest = int64_t{40} << 30;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::vector<Offer> offers = random_offers(seed, kHighest);
    // Some of nearly the same peak.
    for (size_t i = offers.size(); i-- > 0;) {
      offers.push_back({{offers[i].measure.peak + 7, offers[i].measure.extra / 2, 0}, {200}});
    }
    const Archive archive = archive_of(offers);
    std::vector<int64_t> budgets;
    for (const Offer& offer : offers) {
      for (const int64_t off : {-1, 0, 1, 3}) budgets.push_back(offer.measure.peak + off);
    }
    std::sort(budgets.begin(), budgets.end());
    std::optional<PlanPoint> before;
    for (const int64_t budget : budgets) {
      const std::optional<PlanPoint> answer = archive.at_most(budget);
      ASSERT_EQ(answer.has_value(), fastest(offers, budget).has_value());
      if (!answer) continue;
      EXPECT_LE(answer->peak, budget);
      EXPECT_EQ(answer->extra, fastest(offers, budget));
      if (before) {
        EXPECT_LE(answer->extra, before->extra) << seed;
        EXPECT_GE(answer->peak, before->peak) << seed;
      }
      before = answer;
    }
    const int64_t smallest = archive.smallest().peak;
    EXPECT_EQ(archive.at_most(smallest).value().peak, smallest);
    EXPECT_FALSE(archive.at_most(smallest - 1).has_value());
  }
}

TEST(BudgetArchive, PointsAreAllAnswersByFallingPeak) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<Offer> offers = random_offers(seed, 500);
    const Archive archive = archive_of(offers);
    std::vector<std::pair<int64_t, int64_t>> wanted;
    for (int64_t budget = 500; budget > 0; --budget) {
      const std::optional<PlanPoint> answer = archive.at_most(budget);
      if (!answer) break;
      const std::pair point(answer->peak, answer->extra);
      if (wanted.empty() || wanted.back() != point) wanted.push_back(point);
    }
    std::vector<std::pair<int64_t, int64_t>> found;
    for (const PlanPoint& point : archive.points()) found.emplace_back(point.peak, point.extra);
    EXPECT_EQ(found, wanted) << seed;
  }
}

TEST(BudgetArchive, KeepsAPlanWithItsChanges) {
  Archive archive;
  const Plan plan = {kSave, kRecompute, kSave};
  const Change changes[] = {{0, kRecompute}, {1, 4}};
  archive.offer({10, 5, 0}, plan, changes);
  EXPECT_EQ(*archive.at_most(10)->plan, (Plan{kRecompute, 4, kSave}));
  archive.offer(kHopeless, plan);
  EXPECT_EQ(archive.points().size(), 1u);
  EXPECT_FALSE(Archive().at_most(100).has_value());
}

}  // namespace budget_archive_test
}  // namespace antegrad::budget
