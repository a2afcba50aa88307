#include "lower/closeness.h"

#include <algorithm>
#include <cmath>

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
    const double mean = (ours_ - theirs_) / count;
    const double variance = std::max(squares_ / count - mean * mean, 0.0);
    if (mean > slack + 4 * std::sqrt(variance / count)) {
      return fmt::format("its errors are larger: {:.3f} bits in the mean, libtorch's {:.3f}",
                         ours_ / count, theirs_ / count);
    }
    for (size_t i = 0; i < size(); ++i) {
      const double error = std::abs(result_.kernel[i] - result_.exact[i]);
      if (counts(i) && error > std::exp2(1 + slack) * most_ + unit(i)) {
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
      const double ours = std::abs(result_.kernel[i] - result_.exact[i]) / unit(i);
      const double theirs = std::abs(result_.eager[i] - result_.exact[i]) / unit(i);
      const double ours_log = std::log2(1 + ours), theirs_log = std::log2(1 + theirs);
      units_ = std::max(units_, ours);
      most_ = std::max(most_, theirs * unit(i));
      ours_ += ours_log;
      theirs_ += theirs_log;
      squares_ += (ours_log - theirs_log) * (ours_log - theirs_log);
      ++count_;
    }
  }

  const MeasuredResult& result_;
  const Precision& precision_;
  double largest_ = 0;  // exact element
  double count_ = 0;
  double ours_ = 0;  // sums of logarithms
  double theirs_ = 0;
  double squares_ = 0;  // of their differences
  double units_ = 0;    // the most of the kernel
  double most_ = 0;     // eager's largest error
};

}  // namespace

std::string less_accurate(const MeasuredResult& result, double slack) {
  AG_CHECK(is_floating(result.type), "a result of floating-point numbers");
  return Measurement(result).reason(slack);
}

}  // namespace antegrad::lower
