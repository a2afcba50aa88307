#pragma once

/// \file
/// Access to a private member of a libtorch class, for cases in which the public way is too slow
/// or throws.

namespace antegrad::torch_compat {

/// An explicit instantiation may name private members. The friend function that it defines returns
/// the member pointer. Each Tag stands for one member, and is in this namespace under its own
/// name, as is the function:
///
///     struct OwnerCount : MemberTag<int, Owner> { friend constexpr Member expose(OwnerCount); };
///     template struct Expose<OwnerCount, &Owner::count_>;
///     owner.*expose(OwnerCount());
template <class Tag, typename Tag::Member member>
struct Expose {
  friend constexpr typename Tag::Member expose(Tag) { return member; }
};
template <class T, class Owner>
struct MemberTag {
  using Member = T Owner::*;
};

}  // namespace antegrad::torch_compat
