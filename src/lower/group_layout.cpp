#include "lower/group_layout.h"

#include <algorithm>
#include <functional>

namespace antegrad::lower {

int64_t size_at(const TensorMeta& meta, size_t dimension) {
  return meta.sizes[dimension].constant();
}
int64_t stride_at(const TensorMeta& meta, size_t dimension) {
  return meta.strides[dimension].constant();
}

Atoms atoms_of(const TensorLayout& layout) {
  Atoms all;
  for (const Atoms& atoms : layout) all.insert(all.end(), atoms.begin(), atoms.end());
  return all;
}

int32_t GroupLayout::add(int64_t size) {
  sizes_.push_back(size);
  return static_cast<int32_t>(sizes_.size()) - 1;
}

void GroupLayout::set_fresh(ValueId id) {
  const TensorMeta& meta = graph_.value(id).meta;
  TensorLayout layout(meta.sizes.size());
  for (size_t d = 0; d < layout.size(); ++d) {
    if (size_at(meta, d) != 1) layout[d] = {add(size_at(meta, d))};
  }
  set(id, std::move(layout));
}

// The atom becomes the inner part, so that what lies at its stride keeps its number.
void GroupLayout::split(int32_t atom, int64_t inner) {
  const int32_t outer = add(sizes_[atom] / inner);
  sizes_[atom] = inner;
  for (auto& [id, layout] : layouts_) {
    for (Atoms& atoms : layout) {
      const auto place = std::ranges::find(atoms, atom);
      if (place != atoms.end()) atoms.insert(place, outer);
    }
  }
}

std::optional<TensorLayout> GroupLayout::broadcast(ValueId narrow, ValueId wide) const {
  const TensorMeta& from = graph_.value(narrow).meta;
  const TensorMeta& to = graph_.value(wide).meta;
  if (from.sizes.size() > to.sizes.size()) return {};
  const size_t before = to.sizes.size() - from.sizes.size();
  TensorLayout layout(from.sizes.size());
  for (size_t d = 0; d < layout.size(); ++d) {
    if (size_at(from, d) == size_at(to, before + d)) {
      layout[d] = of(wide)[before + d];
    } else if (size_at(from, d) != 1) {
      return {};
    }
  }
  return layout;
}

std::map<int32_t, int64_t> GroupLayout::strides(ValueId id, const TensorLayout& layout) const {
  const TensorMeta& meta = graph_.value(id).meta;
  std::map<int32_t, int64_t> strides;
  for (size_t d = 0; d < layout.size(); ++d) {
    int64_t stride = stride_at(meta, d);
    for (size_t i = layout[d].size(); i-- > 0;) {
      strides[layout[d][i]] = stride;
      stride *= sizes_[layout[d][i]];
    }
  }
  return strides;
}

std::optional<Atoms> GroupLayout::memory_order(ValueId id) const {
  const auto found = strides(id, of(id));
  Atoms atoms = atoms_of(of(id));
  std::ranges::sort(atoms, std::greater<>(), [&](int32_t atom) { return found.at(atom); });
  int64_t expected = 1;
  for (size_t i = atoms.size(); i-- > 0;) {
    const int64_t stride = found.at(atoms[i]);
    if (stride < expected) return {};
    expected = stride * size(atoms[i]);
  }
  return atoms;
}

std::optional<TensorLayout> GroupLayout::of_view(ValueId to, ValueId from,
                                                 const TensorLayout& from_layout) {
  const TensorMeta& meta = graph_.value(to).meta;
  if (!(meta.offset == graph_.value(from).meta.offset)) return {};
  // Splits have to reach it.
  const bool kept = has(from);
  if (!kept) set(from, from_layout);
  struct Forget {
    GroupLayout& self;
    ValueId id;
    bool kept;
    ~Forget() {
      if (!kept) self.layouts_.erase(id);
    }
  } forget{*this, from, kept};

  // Atoms of the memory by stride.
  std::map<int64_t, int32_t> memory;
  for (const auto& [atom, stride] : strides(from, of(from))) {
    if (stride == 0) continue;
    if (!memory.emplace(stride, atom).second) return {};
  }
  // Cuts the memory at a distance, if it is not cut there already.
  const auto cut = [&](int64_t at) {
    if (memory.contains(at)) return true;
    auto below = memory.lower_bound(at);
    if (below == memory.begin()) return false;
    const auto [stride, atom] = *--below;
    const int64_t end = stride * sizes_[atom];
    if (end == at) return true;
    if (end < at || at % stride != 0 || sizes_[atom] % (at / stride) != 0) return false;
    split(atom, at / stride);
    memory[at] = static_cast<int32_t>(sizes_.size()) - 1;
    return true;
  };
  TensorLayout layout(meta.sizes.size());
  std::vector<int32_t> taken;
  for (size_t d = 0; d < layout.size(); ++d) {
    const int64_t size = size_at(meta, d);
    if (size == 1) continue;
    const int64_t stride = stride_at(meta, d);
    if (stride == 0) continue;
    const int64_t end = stride * size;
    if (!cut(stride) || !cut(end)) return {};
    for (int64_t at = stride; at < end;) {
      const auto atom = memory.find(at);
      if (atom == memory.end()) return {};
      layout[d].insert(layout[d].begin(), atom->second);
      taken.push_back(atom->second);
      at *= sizes_[atom->second];
    }
  }
  // A cut may have gone through what was taken before.
  for (size_t d = 0; d < layout.size(); ++d) {
    int64_t size = 1;
    for (const int32_t atom : layout[d]) size *= sizes_[atom];
    if (stride_at(meta, d) != 0 && size != size_at(meta, d)) return {};
  }
  std::ranges::sort(taken);
  const bool once = std::ranges::adjacent_find(taken) == taken.end();
  // A part of the memory only, or some of it twice.
  if (!once || taken.size() != memory.size()) return {};
  return layout;
}

}  // namespace antegrad::lower
