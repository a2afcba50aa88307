#include <string_view>
#include <unordered_map>

#include "shapes/families.h"

namespace antegrad::shapes {

namespace {

constexpr const Family* kFamilies[] = {
    &pointwise_family, &special_family,   &matmul_family,         &view_family,
    &factory_family,   &reduction_family, &norm_family,           &convolution_family,
    &pooling_family,   &image_family,     &embedding_loss_family, &attention_family,
    &indexing_family,  &own_family,       &collective_family,
};

std::unordered_map<std::string_view, Function> index_by_name() {
  std::unordered_map<std::string_view, Function> index;
  for (const Family* family : kFamilies) {
    for (const Row& row : *family) {
      const bool first = index.emplace(row.op, row.function).second;
      TORCH_INTERNAL_ASSERT(first, "two shape functions for ", row.op);
    }
  }
  return index;
}

}  // namespace

Function find(std::string_view op) {
  static const auto index = index_by_name();
  const auto it = index.find(op);
  return it == index.end() ? nullptr : it->second;
}

std::vector<Entry> all() {
  std::vector<Entry> entries;
  for (const Family* family : kFamilies) {
    for (const Row& row : *family) entries.push_back({row.op, row.function});
  }
  return entries;
}

}  // namespace antegrad::shapes
