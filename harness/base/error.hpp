// What every part of the harness throws.
#pragma once
#include <stdexcept>

namespace ladder {

/// An error that is a sentence: what was wrong, with which value, and what to do.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A variant's upload throws it where it cannot take these points, by their values: its rows are refused, not failed.
/// What a shape rules out is the card's `.refuse`.
struct Refusal : Error {
  using Error::Error;
};

}  // namespace ladder
