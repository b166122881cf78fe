// Half-precision numbers of CUDA for a plain C++ compiler.
#pragma once
#include <simt/half.h>
