// A peer: the k-means of a library (scikit-learn, PyTorch, ...) as a variant. It is one Python file with a card and the
// phases of contract.hpp; here it becomes a Card like that of a compiled module, so that sessions drive, time and
// validate it like every other variant.
//
// Each phase is one request to a Python process and one reply (peer.py): some 50 microseconds on the host's clock, in
// every timed phase (tests/runner/test_peers.py measures it). That is little in a solve, and most of an `assign` of a
// small problem. Labels, centroids and points are in memory that both processes map: no request carries them.
//
// On every device a peer is `Device::host_memory`: State::label and State::c are host memory, whichever device the
// library computes on, and a phase returns when its work is done.
#pragma once
#include <filesystem>

#include "contract/contract.hpp"

namespace ladder {

/// Is this module a peer's file?
inline bool is_peer(const std::filesystem::path& module) { return module.extension() == ".py"; }

/// Starts a Python process on a peer's file and returns its card; the process is the one that the card's phases ask,
/// until another peer is loaded (the same once more keeps it: libraries take seconds to import). Python is
/// $LADDER_PYTHON, else the checkout's .venv/bin/python, else python3. Throws Error where it does not start, where the
/// file cannot be run, and where its card or its phases are not right.
const Card* load_peer(const std::filesystem::path& file);

}  // namespace ladder
