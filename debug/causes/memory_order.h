#pragma once

#include <optional>
#include <vector>

#include "debug/causes/causes.h"
#include "debug/causes/memory_findings.h"

namespace lanescope {

/// What a finding is called as a cause.
Cause cause_of(simt::Kind kind);

/// Lanes that ran in step made these accesses in the order of the program, as __syncwarp() would
/// have them: what is wrong then has another reason, unless the two mean two arrays that overlap.
bool is_hidden_by_step(const CheckReport& report, const CheckReport::Item& item);

/// Puts the findings of `report` in the order in which they may be why values are `wrong` at a
/// site: the cause first.
void put_in_order(const CheckReport& report, std::optional<SiteId> wrong,
                  std::vector<CheckReport::Item>& items);

/// Two blocks, which nothing orders, store to one place.
bool are_stores_of_two_blocks(const simt::Finding& finding);

}  // namespace lanescope
