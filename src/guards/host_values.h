#pragma once

/// \file
/// Host values as guards see them: numbers are equal when their bits are, so that NaN equals itself
/// and -0.0 is another value than 0.0, which leads to other programs.

#include <string>
#include <vector>

#include "antegrad/tree.h"

namespace antegrad::guards {

bool same_host(const HostValue& a, const HostValue& b);
bool same_host(const std::vector<HostValue>& a, const std::vector<HostValue>& b);

/// "true", "3", "0.1", "\"mean\""; a list of other than one value in brackets: "[1, 2]".
std::string host_text(const HostValue& value);
std::string host_text(const std::vector<HostValue>& values);

/// "host value 1 of the arguments was 2, is 3": the first that differs; empty when none does.
std::string host_difference(const std::string& owner, const std::vector<HostValue>& was,
                            const std::vector<HostValue>& is);

}  // namespace antegrad::guards
