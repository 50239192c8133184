#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace lanescope {

/// What a program captures of a GPU: tensors of one dimension, written as safetensors.
class CaptureFile {
 public:
  /// `count` numbers of type `dtype` ("U32"), which lie in `bytes`.
  void add(const std::string& name, const std::string& dtype, std::size_t count,
           const std::string& bytes) {
    const std::size_t begin = body_.size();
    body_ += bytes;
    header_ += (header_.empty() ? "{\"" : ",\"") + name + "\":{\"dtype\":\"" + dtype +
               "\",\"shape\":[" + std::to_string(count) + "],\"data_offsets\":[" +
               std::to_string(begin) + "," + std::to_string(body_.size()) + "]}";
  }
  /// Whether it is there, whole.
  bool write(const char* path) const {
    std::string header = (header_.empty() ? "{" : header_) + "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::ofstream file(path, std::ios::binary);
    const std::uint64_t length = header.size();
    file.write(reinterpret_cast<const char*>(&length), 8);
    file << header << body_;
    file.close();
    return file.good();
  }

 private:
  std::string header_, body_;
};

}  // namespace lanescope
