#include "shapes/compare.h"

#include <sstream>

namespace antegrad::shapes {

bool operator==(const Spec& a, const Spec& b) {
  if (a.integer || b.integer) return a.integer == b.integer;
  if (!a.defined || !b.defined) return a.defined == b.defined;
  return a.dtype == b.dtype && a.device == b.device && a.sizes == b.sizes &&
         a.strides == b.strides && a.offset == b.offset;
}

std::string to_text(const Spec& spec) {
  if (spec.integer) return std::to_string(*spec.integer);
  if (!spec.defined) return "undefined";
  std::ostringstream out;
  out << spec.dtype << at::IntArrayRef(spec.sizes) << '/' << at::IntArrayRef(spec.strides);
  if (spec.offset != 0) out << '+' << spec.offset;
  out << " on " << spec.device;
  return out.str();
}

std::string difference(const std::vector<Spec>& answers, const std::vector<Spec>& returned) {
  std::ostringstream out;
  if (answers.size() != returned.size()) {
    out << answers.size() << " outputs described, " << returned.size() << " returned";
    return out.str();
  }
  for (size_t i = 0; i < returned.size(); ++i) {
    if (answers[i] == returned[i]) continue;
    out << "output " << i << " described as " << to_text(answers[i]) << ", returned as "
        << to_text(returned[i]);
    break;
  }
  return out.str();
}

}  // namespace antegrad::shapes
