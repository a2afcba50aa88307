#pragma once

/// \file
/// Access to a private member of a libtorch class, for cases in which the public way is too slow
/// or throws.

namespace antegrad::torch_compat {

/// An explicit instantiation may name private members. The friend function that it defines returns
/// the member pointer. Each tag stands for one member:
///
///     using OwnerCount = MemberTag<struct Count, int, Owner>;
///     template struct Expose<OwnerCount, &Owner::count_>;
///     owner.*expose(OwnerCount());
template <class Tag, typename Tag::Member member>
struct Expose {
  friend constexpr typename Tag::Member expose(Tag) { return member; }
};
// GCC warns that a template may be meant: no, there is one function per tag.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-template-friend"
template <class Name, class T, class Owner>
struct MemberTag {
  using Member = T Owner::*;
  friend constexpr Member expose(MemberTag);
};
#pragma GCC diagnostic pop

}  // namespace antegrad::torch_compat
