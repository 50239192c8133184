#pragma once

#include "debug/dump/dump.h"
#include "debug/dump/safetensors.h"

namespace lanescope {

/// `info` as the strings of a dump's `__metadata__`: plain text, and JSON for `shape`, `tile`,
/// `traced`, `sites` and, where the run did not end, `stop`. The sites' coordinates and owners are
/// tensors and not part of it.
SafetensorsMetadata metadata_of(const DumpInfo& info);

/// The inverse of metadata_of. Throws UsageError, naming the entry, where one is missing or holds
/// what no dump holds; which sites fit together with which tensors is check_dump's question.
DumpInfo info_of(const SafetensorsMetadata& metadata);

}  // namespace lanescope
