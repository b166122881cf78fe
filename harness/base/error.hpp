// What every part of the harness throws.
#pragma once
#include <stdexcept>

namespace ladder {

/// An error that is a sentence: what was wrong, with which value, and what to do.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace ladder
