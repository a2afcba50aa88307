#include "kernels/outcome.h"

namespace antegrad::kernels {

std::string_view to_string(Reason reason) {
  switch (reason) {
    case Reason::no_compiler: return "no_compiler";
    case Reason::compiler_failed: return "compiler_failed";
    case Reason::timed_out: return "timed_out";
    case Reason::source_refused: return "source_refused";
    case Reason::folder_refused: return "folder_refused";
    case Reason::folder_not_writable: return "folder_not_writable";
    case Reason::disk_full: return "disk_full";
    case Reason::not_loadable: return "not_loadable";
  }
  return "";
}

Failure failure_of(const FolderFailure& failure) {
  switch (failure.kind) {
    case FolderFailure::Kind::refused: return {Reason::folder_refused, failure.text};
    case FolderFailure::Kind::not_writable: return {Reason::folder_not_writable, failure.text};
    case FolderFailure::Kind::full: return {Reason::disk_full, failure.text};
  }
  return {Reason::folder_refused, failure.text};
}

}  // namespace antegrad::kernels
