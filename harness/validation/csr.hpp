// Checks that compressed sparse rows hold the same points as the dense ones, which all other validation reads.
#pragma once
#include <cstdint>
#include <string>

#include "contract/problem.hpp"

namespace ladder {

/// What is wrong with `csr` beside points (n x d, row-major), in a sentence; empty where nothing is. Wrong are: rows
/// that do not begin at 0, end at nnz and ascend; columns that are not ascending, repeat or are not one of 0 .. d - 1;
/// a value that is not the point's; a value of the point other than zero that is not stored. Zeros may be stored.
template <class T>
std::string check_csr(const Csr<T>& csr, int n, int d, int64_t nnz, const T* points);

}  // namespace ladder
