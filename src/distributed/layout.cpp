#include "distributed/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "distributed/collectives.h"

namespace antegrad::distributed {
namespace {

constexpr int64_t kAlignment = 64;

int64_t rounded_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

struct DefinedMembers {
  DefinedMembers(const Layout& layout, const std::vector<at::Tensor>& members) {
    for (size_t i = 0; i < members.size(); ++i) {
      if (!members[i].defined()) continue;
      tensors.push_back(members[i]);
      offsets.push_back(layout.members[i].offset);
    }
  }
  detail::LocalSum::Parts parts(const Layout& layout, at::ScalarType dtype,
                                const GroupState& group) const {
    return {tensors, offsets, layout.elements_here * group.size, dtype};
  }

  std::vector<at::Tensor> tensors;
  std::vector<int64_t> offsets;
};

}  // namespace

int64_t Layout::Member::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

Layout::Layout(const std::vector<std::pair<std::string, at::Tensor>>& tensors,
               int64_t element_bytes, int32_t ranks) {
  const auto aligned = kAlignment / element_bytes;
  int64_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    members.push_back({name, tensor.sizes().vec(), end});
    end = rounded_up(end + tensor.numel(), aligned);
  }
  elements_here = rounded_up(end, aligned * ranks) / ranks;
}

std::vector<at::Tensor> Layout::views(const at::Tensor& flat) const {
  std::vector<at::Tensor> views;
  for (const auto& member : members) {
    views.push_back(flat.narrow(0, member.offset, member.elements()).view(member.sizes));
  }
  return views;
}

std::string Layout::text() const {
  std::string text;
  for (const auto& member : members) {
    text += fmt::format("  {} [{}]\n", member.name, fmt::join(member.sizes, ", "));
  }
  return text;
}

at::ScalarType dtype_of_defined(const std::vector<at::Tensor>& tensors) {
  const auto first = std::ranges::find_if(tensors, [](const auto& t) { return t.defined(); });
  return first == tensors.end() ? at::kFloat : first->scalar_type();
}

at::Tensor mean_of_part(const Layout& layout, const std::vector<at::Tensor>& members,
                        at::ScalarType dtype, const GroupState& group,
                        const detail::LocalSum& sum) {
  const DefinedMembers defined(layout, members);
  if (defined.tensors.empty()) return {};
  const auto all = pack(defined.parts(layout, dtype, group), sum);
  if (group.size == 1) return all;
  return wait(all_to_all(all, group), all).sum(0).mul(1.0 / group.size);
}

at::Tensor accumulate_members(const Layout& layout, const std::vector<at::Tensor>& members,
                              at::ScalarType dtype, const GroupState& group,
                              const detail::LocalSum& sum) {
  const DefinedMembers defined(layout, members);
  if (defined.tensors.empty()) return {};
  return accumulate(defined.parts(layout, dtype, group), sum);
}

}  // namespace antegrad::distributed
