#include "graph/size_fit.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include <antegrad/error.h>

#include "graph/hash_bits.h"

namespace antegrad {
namespace {

constexpr size_t kMaxKnown = 512;
constexpr size_t kMaxProducts = 1 << 13;
constexpr int64_t kLargest = int64_t{1} << 61;  // sums and differences of four such numbers fit
// Lengths of expressions, in about bits.
constexpr int kSymbolLength = 4;
constexpr int kSumLength = 2;
constexpr int kQuotientLength = 5;  // and extremes
// Added to them:
constexpr int kFar = 4;      // for a symbol that does not occur nearby
constexpr int kUnusual = 6;  // for 3*s0 + 2, unlike 3*(s0 + 2)

bool too_large(int64_t value) { return value > kLargest || value < -kLargest; }

bool is_constant(const Column& column) {
  return std::ranges::all_of(column, [&](int64_t value) { return value == column.front(); });
}

int64_t divisor_of(const Column& column) {
  return std::accumulate(column.begin(), column.end(), int64_t{0}, std::gcd<int64_t, int64_t>);
}

template <class Change>
Column changed(Column column, Change change) {
  for (int64_t& value : column) value = change(value);
  return column;
}

// The same for all multiples of a column, negative ones included.
Column direction(const Column& column) {
  const auto first = std::ranges::find_if(column, [](int64_t value) { return value != 0; });
  if (first == column.end()) return column;
  const int64_t divisor = *first < 0 ? -divisor_of(column) : divisor_of(column);
  return changed(column, [divisor](int64_t value) { return value / divisor; });
}

Column difference(const Column& a, const Column& b) {
  Column result;
  for (size_t i = 0; i < a.size(); ++i) result[i] = a[i] - b[i];
  return result;
}

std::optional<Column> product(const Column& a, const Column& b) {
  Column result;
  for (size_t i = 0; i < a.size(); ++i) {
    if (__builtin_mul_overflow(a[i], b[i], &result[i]) || too_large(result[i])) {
      return std::nullopt;
    }
  }
  return result;
}

int length(const IntExpr& expr) {
  if (const auto number = expr.maybe_constant()) {
    const auto size = static_cast<uint64_t>(*number < 0 ? -(*number + 1) : *number);
    return std::bit_width(size) - (size > 0 ? 1 : 0) + (*number < 0 ? 2 : 0);
  }
  int result = 0;
  for (const IntExpr& operand : expr.operands()) result += length(operand);
  switch (expr.kind()) {
    case IntExpr::Kind::symbol: return kSymbolLength;
    case IntExpr::Kind::mul: return result + 1;
    case IntExpr::Kind::add: return result + kSumLength;
    default: return result + kQuotientLength;
  }
}

// One bit for each symbol; those above 63 share bits.
uint64_t symbols_of(const IntExpr& expr) {
  if (expr.kind() == IntExpr::Kind::symbol) return uint64_t{1} << (expr.symbol_id() % 64);
  uint64_t result = 0;
  for (const IntExpr& operand : expr.operands()) result |= symbols_of(operand);
  return result;
}

bool is_product_of_symbols(const IntExpr& expr) {
  return expr.kind() == IntExpr::Kind::mul &&
         std::ranges::all_of(expr.operands(), [](const IntExpr& factor) {
           return factor.is_constant() || factor.kind() == IntExpr::Kind::symbol;
         });
}

}  // namespace

size_t SizeFit::ColumnHash::operator()(const Column& column) const {
  uint64_t hash = 0;
  for (const int64_t value : column) hash = mix_bits(hash, static_cast<uint64_t>(value));
  return hash;
}

// Offers candidates for one column and keeps the one of the least size: its length, where an
// expression that occurs nearby counts as a symbol.
class SizeFit::Search {
 public:
  Search(const SizeFit& fit, const Column& column, const std::vector<IntExpr>& nearby)
      : fit_(fit), column_(column) {
    for (const Known& known : fit.known_) sizes_.push_back(known.length);
    for (const IntExpr& expr : nearby) {
      if (expr.is_constant()) continue;
      near_symbols_ |= symbols_of(expr);
      const auto it = fit.by_column_.find(fit.column(expr));
      if (it == fit.by_column_.end()) continue;
      if (std::ranges::find(nearby_, it->second) == nearby_.end()) nearby_.push_back(it->second);
      sizes_[it->second] = kSymbolLength;
    }
    if (near_symbols_ == 0) near_symbols_ = ~uint64_t{0};
  }

  std::optional<IntExpr> run() {
    multiples();
    if (!best_) {
      fractions();
      offsets();
      sums();
      for (const int64_t divisor : std::set{int64_t{1}, divisor_of(column_)}) {
        divisor_ = divisor;
        reduced_ = changed(column_, [divisor](int64_t value) { return value / divisor; });
        quotients();
        extremes();
      }
    }
    return std::exchange(best_, {});
  }

 private:
  bool holds(const IntExpr& expr) const {
    try {
      for (size_t i = 0; i < fit_.samples_.size(); ++i) {
        if (expr.evaluate(fit_.samples_[i]) != column_[i]) return false;
      }
      return true;
    } catch (const GraphError&) {  // an overflow on the way
      return false;
    }
  }

  // `build` makes the expression.
  void offer(int size, const auto& build) {
    if (size >= best_size_) return;
    const IntExpr expr = build();
    size += kFar * std::popcount(symbols_of(expr) & ~near_symbols_);
    if (size >= best_size_ || !holds(expr)) return;
    best_ = expr;
    best_size_ = size;
  }

  int size_of(const Product& product) const {
    int size = product.degree;
    for (int32_t i = 0; i < product.degree; ++i) size += sizes_[product.factors[i]];
    return size;
  }

  // Calls `found(product, p, q)` for products P with column = P * p / q.
  template <class Found>
  void with_ratio(const Column& column, Found found) const {
    const auto it = fit_.by_direction_.find(direction(column));
    if (it == fit_.by_direction_.end()) return;
    for (const size_t i : it->second) {
      const Product& product = fit_.products_[i];
      const size_t at = product.column.front() != 0 ? 0 : 1;
      if (product.column[at] == 0) continue;
      const int64_t common = std::gcd(column[at], product.column[at]);
      const int64_t sign = product.column[at] < 0 ? -1 : 1;
      found(product, sign * column[at] / common, sign * product.column[at] / common);
    }
  }

  // These exclude the others, so that strides are products of sizes wherever they can be.
  void multiples() {
    with_ratio(column_, [&](const Product& product, int64_t p, int64_t q) {
      if (q != 1) return;
      offer(size_of(product) + length(p), [&] { return fit_.expression(product) * p; });
    });
  }

  void fractions() {
    with_ratio(column_, [&](const Product& product, int64_t p, int64_t q) {
      offer(size_of(product) + length(p) + length(q) + kQuotientLength,
            [&] { return IntExpr::floor_div(fit_.expression(product) * p, q); });
    });
  }

  void offsets() {
    for (const Product& product : fit_.products_) {
      const Column& x = product.column;
      const size_t i =
          std::ranges::find_if(x, [&](auto value) { return value != x[0]; }) - x.begin();
      if (i == x.size() || (column_[i] - column_[0]) % (x[i] - x[0]) != 0) continue;
      const int64_t factor = (column_[i] - column_[0]) / (x[i] - x[0]);
      int64_t scaled = 0, offset = 0;
      if (factor == 0 || __builtin_mul_overflow(factor, x[0], &scaled) ||
          __builtin_sub_overflow(column_[0], scaled, &offset)) {
        continue;
      }
      const int unusual = offset % factor == 0 ? 0 : kUnusual;
      offer(size_of(product) + length(factor) + length(offset) + kSumLength + unusual,
            [&] { return fit_.expression(product) * factor + offset; });
    }
  }

  void sums() {
    const auto with_rest = [this](const IntExpr& part, int size, const Column& rest) {
      if (rest == Column{}) offer(size, [&] { return part; });
      with_ratio(rest, [&](const Product& product, int64_t p, int64_t q) {
        if (q != 1) return;
        offer(size + kSumLength + length(p) + size_of(product),
              [&] { return part + fit_.expression(product) * p; });
      });
    };
    for (size_t i = 0; i < fit_.known_.size(); ++i) {
      const Known& part = fit_.known_[i];
      with_rest(part.expr, sizes_[i], difference(column_, part.column));
    }
    // Three parts only among what is nearby.
    constexpr size_t kMany = 16;
    const auto near = std::span(nearby_).first(std::min(nearby_.size(), kMany));
    for (const size_t i : near) {
      const Column rest = difference(column_, fit_.known_[i].column);
      for (const size_t j : near) {
        if (j < i) continue;
        with_rest(fit_.known_[i].expr + fit_.known_[j].expr, sizes_[i] + sizes_[j] + kSumLength,
                  difference(rest, fit_.known_[j].column));
      }
    }
  }

  // divisor_ * ((product + p) // q). Which p fit is an interval for each q.
  void quotients() {
    const auto [low, high] = std::ranges::minmax_element(reduced_);
    const int64_t range = *high - *low;
    for (const Product& product : fit_.products_) {
      if (product.degree == 0 || product.degree > 2) continue;
      const int64_t input =
          product.column[high - reduced_.begin()] - product.column[low - reduced_.begin()];
      if (input <= 0) continue;
      const int64_t first = std::max<int64_t>(2, input / (range + 1));
      for (int64_t q = first; q < first + 64 && __int128{q - 1} * (range - 1) <= input; ++q) {
        quotient(product, q);
      }
    }
  }

  void quotient(const Product& product, int64_t q) {
    __int128 least = -kLargest, most = kLargest;
    for (size_t j = 0; j < reduced_.size(); ++j) {
      const __int128 start = __int128{q} * reduced_[j] - product.column[j];
      least = std::max(least, start);
      most = std::min(most, start + q - 1);
    }
    if (least > most) return;
    // Rounding down, up, and the length of a strided slice without its last element come first.
    const __int128 nearest = std::clamp<__int128>(0, least, most);
    for (const __int128 candidate : {__int128{0}, __int128{q} - 1, __int128{-1}, nearest}) {
      if (candidate < least || candidate > most) continue;
      const auto p = static_cast<int64_t>(candidate);
      const int size = size_of(product) + length(p) + length(q) + length(divisor_);
      return offer(size + kSumLength + kQuotientLength,
                   [&] { return IntExpr::floor_div(fit_.expression(product) + p, q) * divisor_; });
    }
  }

  // divisor_ * min(a, b) and divisor_ * max(a, b) of known expressions and numbers.
  void extremes() {
    for (const bool is_min : {true, false}) {
      const auto extreme = [&](size_t a, const IntExpr& b, int size_of_b) {
        const IntExpr& x = fit_.known_[a].expr;
        offer(sizes_[a] + size_of_b + length(divisor_) + kQuotientLength,
              [&] { return (is_min ? IntExpr::min(x, b) : IntExpr::max(x, b)) * divisor_; });
      };
      std::vector<size_t> sides;
      for (size_t i = 0; i < fit_.known_.size(); ++i) {
        bool touches = false, bounds = true, one_number = true;
        int64_t number = 0;  // the value where it is not this side
        bool has_number = false;
        for (size_t j = 0; j < reduced_.size(); ++j) {
          const int64_t x = fit_.known_[i].column[j], y = reduced_[j];
          bounds = bounds && (is_min ? y <= x : y >= x);
          touches = touches || x == y;
          if (x == y) continue;
          one_number = one_number && (!has_number || number == y);
          number = y;
          has_number = true;
        }
        if (!bounds || !touches) continue;
        if (one_number && has_number) extreme(i, number, length(number));
        for (const size_t other : sides) extreme(i, fit_.known_[other].expr, sizes_[other]);
        sides.push_back(i);
      }
    }
  }

  const SizeFit& fit_;
  const Column& column_;
  int64_t divisor_ = 1;
  Column reduced_;              // column_ / divisor_
  std::vector<int> sizes_;      // of known expressions
  std::vector<size_t> nearby_;  // of these, what occurs nearby
  uint64_t near_symbols_ = 0;
  std::optional<IntExpr> best_;
  int best_size_ = std::numeric_limits<int>::max();
};

SizeFit::SizeFit(std::vector<std::vector<int64_t>> samples) : samples_(std::move(samples)) {
  AG_CHECK(!samples_.empty() && samples_.size() <= kMaxSamples, "a bounded number of samples");
  Product one{{}, {}, 0};
  one.column.fill(1);
  products_.push_back(one);
  by_direction_[one.column].push_back(0);
  for (size_t i = 0; i < samples_.front().size(); ++i) {
    const IntExpr symbol = IntExpr::symbol(static_cast<SymbolId>(i));
    learn(symbol, column(symbol));
  }
}

Column SizeFit::column(const IntExpr& expr) const {
  return column(expr, expr.evaluate(samples_.back()));
}

Column SizeFit::column(const IntExpr& earlier, int64_t last) const {
  Column result;
  result.fill(last);
  for (size_t i = 0; i + 1 < samples_.size(); ++i) result[i] = earlier.evaluate(samples_[i]);
  return result;
}

void SizeFit::learn(const IntExpr& expr, const Column& column) {
  if (known_.size() == kMaxKnown || is_constant(column) || std::ranges::any_of(column, too_large)) {
    return;
  }
  if (!by_column_.try_emplace(column, known_.size()).second) return;
  known_.push_back({expr, column, length(expr)});
  if (!is_product_of_symbols(expr)) add_factor(known_.size() - 1);
}

void SizeFit::add_factor(size_t known) {
  // Products that are added here are visited as well, for the powers of the factor. Where there are
  // many factors, later ones are in products of fewer; each is one by itself.
  for (size_t i = 0; i < products_.size(); ++i) {
    Product next = products_[i];
    const int32_t fullness = static_cast<int32_t>(4 * products_.size() / kMaxProducts);
    if (next.degree > 0 && next.degree >= 4 - fullness) continue;
    const auto column = product(next.column, known_[known].column);
    if (!column) continue;
    next.column = *column;
    next.factors[next.degree++] = static_cast<uint16_t>(known);
    by_direction_[direction(*column)].push_back(products_.size());
    products_.push_back(next);
  }
}

IntExpr SizeFit::expression(const Product& product) const {
  IntExpr result = 1;
  for (int32_t i = 0; i < product.degree; ++i) result = result * known_[product.factors[i]].expr;
  return result;
}

std::optional<IntExpr> SizeFit::find(const Column& column, const std::vector<IntExpr>& nearby) {
  if (is_constant(column)) return IntExpr(column.front());
  const auto it = by_column_.find(column);
  if (it != by_column_.end()) return known_[it->second].expr;
  if (std::ranges::any_of(column, too_large)) return std::nullopt;
  auto expr = Search(*this, column, nearby).run();
  if (expr) learn(*expr, column);
  return expr;
}

}  // namespace antegrad
