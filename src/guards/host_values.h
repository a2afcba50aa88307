#pragma once

/// \file
/// Host values in guards: numbers are equal if their bits are, so that NaN equals itself, and -0.0
/// and 0.0, which lead to different programs, differ.

#include <string>
#include <vector>

#include "antegrad/tree.h"

namespace antegrad::guards {

bool same_host(const HostValue& a, const HostValue& b);
bool same_host(const std::vector<HostValue>& a, const std::vector<HostValue>& b);
/// Agrees with same_host().
uint64_t hash_value(const HostValue& value);

/// "true", "3", "0.1", "\"mean\""; any number of values other than one in brackets: "[1, 2]".
std::string host_text(const HostValue& value);
std::string host_text(const std::vector<HostValue>& values);

/// The first difference: "host value 1 of the arguments was 2, is 3"; empty if there is none.
std::string host_difference(const std::string& owner, const std::vector<HostValue>& was,
                            const std::vector<HostValue>& is);

}  // namespace antegrad::guards
