#include "containers.h"

#include <utility>

namespace antegrad::python {

int64_t Containers::find(py::handle object) const {
  if (!numbers_.empty()) {
    const auto found = numbers_.find(object.ptr());
    return found == numbers_.end() ? -1 : found->second;
  }
  for (size_t i = 0; i < objects_.size(); ++i) {
    if (objects_[i].is(object)) return static_cast<int64_t>(i);
  }
  return -1;
}

void Containers::add(py::object object) {
  objects_.push_back(std::move(object));
  if (numbers_.empty() && objects_.size() < kScanned) return;
  for (auto i = numbers_.size(); i < objects_.size(); ++i) {
    numbers_.emplace(objects_[i].ptr(), static_cast<int64_t>(i));
  }
}

void Containers::shrink(size_t size) {
  while (objects_.size() > size) {
    numbers_.erase(objects_.back().ptr());
    objects_.pop_back();
  }
}

}  // namespace antegrad::python
