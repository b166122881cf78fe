// Variants without doubles, for builds with sanitizers, where half of the time to compile a variant is for its
// doubles. Included before the variant's file, this leaves its phases for doubles out, and a run with doubles is
// refused, as it is for variants that have none. It expects the file to define its phases in the usual form:
//
//   constexpr Phases<T, Workspace<T>> phases{...};
#pragma once
#include "contract.hpp"

#undef LADDER_VARIANT
#define LADDER_VARIANT(...)                                                                \
  namespace {                                                                              \
  template <>                                                                              \
  constexpr ladder::Phases<double, Workspace<double>> phases<double>{};                    \
  }                                                                                        \
  extern "C" __attribute__((visibility("default"))) const ladder::Card* ladder_variant() { \
    static const ladder::Card card{__VA_ARGS__, .for_cuda = LADDER_FOR_CUDA};              \
    return &card;                                                                          \
  }
