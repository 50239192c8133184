// write_source_hash OUTPUT ROOT FILE...: a header with the hash of a module's sources.

#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "debug/dump/source_hash.h"

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: write_source_hash OUTPUT ROOT FILE...\n";
    return 2;
  }
  const std::vector<std::string> files(argv + 3, argv + argc);
  const std::string hash = lanescope::hash_sources(argv[2], files);
  if (hash.empty()) {
    std::cerr << "write_source_hash: a source below " << argv[2] << " cannot be read\n";
    return 1;
  }
  std::ofstream(argv[1]) << "#pragma once\n#define LANESCOPE_SOURCE_HASH \"" << hash << "\"\n";
  return 0;
}
