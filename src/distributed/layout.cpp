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
                                const Mesh& mesh) const {
    return {tensors, offsets, layout.elements_here * mesh.group.size(), dtype};
  }

  std::vector<at::Tensor> tensors;
  std::vector<int64_t> offsets;
};

}  // namespace

int64_t Layout::Member::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

Layout::Layout(const std::vector<std::pair<std::string, at::Tensor>>& tensors,
               int64_t element_bytes, const Mesh& mesh) {
  const auto aligned = kAlignment / element_bytes;
  int64_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    members.push_back({name, tensor.sizes().vec(), end});
    end = rounded_up(end + tensor.numel(), aligned);
  }
  // Replicas exchange pieces of a part, which are equal, too.
  elements_here = rounded_up(end, aligned * mesh.ranks()) / mesh.group.size();
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

void broadcast_over(const Mesh& mesh, at::Tensor& tensor) {
  // To the ranks of the first group by the group of each, and from them to their groups.
  if (mesh.replicas) broadcast(*mesh.replicas->state(), tensor, /*from=*/0);
  broadcast(*mesh.group.state(), tensor, /*from=*/0);
}

at::ScalarType dtype_of_defined(const std::vector<at::Tensor>& tensors) {
  const auto first = std::ranges::find_if(tensors, [](const auto& t) { return t.defined(); });
  return first == tensors.end() ? at::kFloat : first->scalar_type();
}

namespace {

// The sum over the ranks of a group, in their order, of this rank's equal part.
at::Tensor sum_of_part(const at::Tensor& all, const ProcessGroup& group) {
  if (group.size() == 1) return all;
  return wait(all_to_all(all, *group.state()), all).sum(0);
}

}  // namespace

at::Tensor mean_of_part(const Layout& layout, const std::vector<at::Tensor>& members,
                        at::ScalarType dtype, const Mesh& mesh, const detail::LocalSum& sum) {
  const DefinedMembers defined(layout, members);
  if (defined.tensors.empty()) return {};
  const auto part = sum_of_part(pack(defined.parts(layout, dtype, mesh), sum), mesh.group);
  if (mesh.ranks() == 1) return part;
  const double share = 1.0 / mesh.ranks();
  if (mesh.replica_count() == 1) return part.mul(share);
  const auto piece = sum_of_part(part, *mesh.replicas).mul(share);
  return wait(all_gather(piece, *mesh.replicas->state()), piece);
}

at::Tensor accumulate_members(const Layout& layout, const std::vector<at::Tensor>& members,
                              at::ScalarType dtype, const Mesh& mesh, const detail::LocalSum& sum) {
  const DefinedMembers defined(layout, members);
  if (defined.tensors.empty()) return {};
  return accumulate(defined.parts(layout, dtype, mesh), sum);
}

}  // namespace antegrad::distributed
