#pragma once

/// \file
/// The files of a checkpoint. In the folder, `current` names a folder in it, which holds
///
///   manifest.json   what the others hold
///   rank-N.bin      of each unit, the part that rank N had: the parameters, then the tensors of
///                   the optimizer's state, one after the other
///   buffers.bin     the module's buffers
///
/// `current` is replaced last, by renaming, so that it always names a whole checkpoint.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/dtype.h"

namespace antegrad::distributed {

struct Checkpoint {
  struct Member {
    std::string name = {};
    std::vector<int64_t> sizes = {};
    int64_t offset = 0;  ///< in the flat tensor, in elements
    friend bool operator==(const Member&, const Member&) = default;
  };
  /// Of the size of a rank's part.
  struct Part {
    std::string name = {};  ///< "parameter", or that of the optimizer's state
    DType dtype = DType::f32;
    friend bool operator==(const Part&, const Part&) = default;
  };
  struct Unit {
    std::vector<Member> members = {};
    int64_t elements_here = 0;     ///< of a rank's part
    std::vector<Part> parts = {};  ///< in the order of the file
    std::map<std::string, int64_t> numbers = {};
    friend bool operator==(const Unit&, const Unit&) = default;
  };
  struct Buffer {
    std::string name = {};
    DType dtype = DType::f32;
    std::vector<int64_t> sizes = {};
    friend bool operator==(const Buffer&, const Buffer&) = default;
  };
  struct Contents {
    int64_t bytes = 0;
    std::string hash = {};
    friend bool operator==(const Contents&, const Contents&) = default;
  };

  int64_t step = 0;
  std::string optimizer = {};  ///< its kind; empty for none
  std::vector<Unit> units = {};
  std::vector<Buffer> buffers = {};
  std::vector<std::pair<std::string, std::string>> other_names = {};
  std::map<std::string, Contents> files = {};  ///< by name
  int32_t ranks = 0;
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

std::string rank_file(int32_t rank);
inline constexpr const char* kBuffersFile = "buffers.bin";
Checkpoint::Contents contents_of(std::string_view bytes);

std::string to_json(const Checkpoint& checkpoint);

/// The path of the folder that `current` names; empty if there is none.
std::string current_folder(const std::string& folder);
/// Makes a folder beside it for a new checkpoint, and returns its name. Throws InputError.
std::string make_folder(const std::string& folder, int64_t step);
/// Writes a file to its end, onto the disk. Throws InputError.
void write_file(const std::string& path, std::string_view bytes);
/// Removes the folder of a checkpoint, as far as it can be.
void remove_folder(const std::string& path);
/// Makes `name` the current one, and removes the others. Throws InputError.
void make_current(const std::string& folder, const std::string& name);

/// Both throw InputError.
Checkpoint read_checkpoint(const std::string& current);
std::string read_file(const std::string& current, const Checkpoint& checkpoint,
                      const std::string& name);

}  // namespace antegrad::distributed
