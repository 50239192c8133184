#include "gates/commands/fresh_dump.h"

#include "gates/build/module_catalogue.h"

namespace lanescope {

Dump read_fresh_dump(const std::string& path, bool stale_ok) {
  Dump dump = read_dump(path);
  if (!stale_ok) {
    demand_fresh("what made " + path, dump.info.kernel, dump.info.source_hash,
                 "Run it again, or judge it all the same with --stale-ok");
  }
  return dump;
}

}  // namespace lanescope
