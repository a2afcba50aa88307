#include "lower/closeness.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <antegrad/error.h>

namespace antegrad::lower {
namespace {

struct Precision {
  DType type;
  double epsilon;
  double least;  ///< normal number
  double end;    ///< from here on numbers are rounded to infinity
};

constexpr Precision kPrecisions[] = {
    {DType::f64, 0x1p-52, 0x1p-1022, INFINITY},
    {DType::f32, 0x1p-23, 0x1p-126, 0x1.ffffffp127},
    {DType::bf16, 0x1p-7, 0x1p-126, 0x1.ffp127},
    {DType::f16, 0x1p-10, 0x1p-14, 65520},
};

constexpr double kGross = 4096;  // units: more than any formula loses
constexpr double kFew = 32;      // elements, whose errors are chance

bool same_kind(double a, double b) {
  if (std::isfinite(a) || std::isfinite(b)) return std::isfinite(a) && std::isfinite(b);
  return std::isnan(a) ? std::isnan(b) : a == b;
}

/// A sum of logarithms, as that of a product as long as there is room.
class LogSum {
 public:
  void add(double factor) {
    if (factor > kRoom) {
      sum_ += std::log2(factor);
      return;
    }
    product_ *= factor;
    if (product_ > kRoom) sum_ += std::log2(std::exchange(product_, 1));
  }
  double value() const { return sum_ + std::log2(product_); }

 private:
  static constexpr double kRoom = 0x1p500;
  double sum_ = 0, product_ = 1;
};

class Measurement {
 public:
  explicit Measurement(const MeasuredResult& result)
      : result_(result),
        precision_(*std::ranges::find(kPrecisions, result.type, &Precision::type)) {}

  std::string reason(double slack) {
    for (size_t i = 0; i < size(); ++i) {
      if (is_of_another_kind(i)) {
        return fmt::format("an element is {}, libtorch's {}, in float64 {}", result_.kernel[i],
                           result_.eager[i], result_.exact[i]);
      }
      if (counts(i)) largest_ = std::max(largest_, std::abs(result_.exact[i]));
    }
    add_errors();
    if (!result_.wider) {
      return units_ > kGross ? fmt::format("an element is {:.3g} units away", units_) : "";
    }
    if (count_ < kFew && units_ <= 1) return "";
    const double count = std::max(count_, 1.0);
    const double mean = differences_ / count;
    const double variance = std::max(squares_ / count - mean * mean, 0.0);
    if (mean > slack + 4 * std::sqrt(variance / count)) {
      return fmt::format("its errors are larger: {:.3f} bits in the mean, libtorch's {:.3f}",
                         ours_.value() / count, theirs_.value() / count);
    }
    const double most = std::exp2(1 + slack) * most_;
    for (size_t i = 0; i < size(); ++i) {
      const double error = std::abs(result_.kernel[i] - result_.exact[i]);
      if (error > most && counts(i) && error > most + unit(i)) {
        return fmt::format("an error is {:.3g}, libtorch's largest {:.3g}", error, most_);
      }
    }
    return "";
  }

 private:
  size_t size() const { return result_.exact.size(); }

  bool counts(size_t i) const {
    return std::isfinite(result_.kernel[i]) && std::isfinite(result_.eager[i]) &&
           std::isfinite(result_.exact[i]);
  }

  bool is_of_another_kind(size_t i) const {
    const double ours = result_.kernel[i], theirs = result_.eager[i];
    double exact = result_.exact[i];
    if (std::abs(exact) >= precision_.end) exact = std::copysign(INFINITY, exact);
    if (std::isnan(ours) && !std::isnan(theirs) && !std::isnan(exact)) return true;
    if (!same_kind(theirs, exact) || same_kind(ours, exact)) return false;
    // Without a wider type, `exact` may be what overflowed on its way.
    return std::isnan(exact) ? std::isfinite(ours) && result_.wider : true;
  }

  double unit(size_t i) const {
    const double least = std::max(precision_.least, precision_.epsilon * largest_);
    return std::ldexp(precision_.epsilon, std::ilogb(std::max(std::abs(result_.exact[i]), least)));
  }

  void add_errors() {
    for (size_t i = 0; i < size(); ++i) {
      if (!counts(i)) continue;
      const double one = unit(i), eager_error = std::abs(result_.eager[i] - result_.exact[i]);
      const double ours = std::abs(result_.kernel[i] - result_.exact[i]) / one;
      const double theirs = eager_error / one;
      units_ = std::max(units_, ours);
      most_ = std::max(most_, eager_error);
      ours_.add(1 + ours);
      theirs_.add(1 + theirs);
      // Most elements have eager's bits.
      const double difference = ours == theirs ? 0 : std::log2((1 + ours) / (1 + theirs));
      differences_ += difference;
      squares_ += difference * difference;
      ++count_;
    }
  }

  const MeasuredResult& result_;
  const Precision& precision_;
  double largest_ = 0;  // exact element
  double count_ = 0;
  LogSum ours_, theirs_;
  double differences_ = 0;  // of the logarithms
  double squares_ = 0;
  double units_ = 0;  // the most of the kernel
  double most_ = 0;   // eager's largest error
};

}  // namespace

std::string less_accurate(const MeasuredResult& result, double slack) {
  AG_CHECK(is_floating(result.type), "a result of floating-point numbers");
  return Measurement(result).reason(slack);
}

}  // namespace antegrad::lower
