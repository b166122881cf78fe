// A variant's module: loading it, and its card as JSON.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "contract/contract.hpp"
#include "protocol/request.hpp"

namespace ladder {

/// Loads a module, or a peer's file (peer.hpp), and returns its card, which lives as long as the process. Throws Error
/// with the loader's words where it does not load, where it has no card, or where the card's id is not the file's name.
const Card* load_card(const std::filesystem::path& module);

/// Why this device cannot run the GPU code of a module whose file has a line `// for cuda: 90a` (Card::for_cuda), in a
/// sentence; empty where it can, or where there is no such line. Code for an architecture with a letter runs on that
/// one alone, other code on later ones of the same generation, too.
std::string lacks_instructions(const Card& card, const Device& device);

/// The values of the card's axes: the request's, and the standard ones of axes that it does not name.
Axes axes_of(const Card& card, const Request& request);

/// The card as `ladder list --json` has it, but for its phases: {"id", "base", "idea", ..., "gpus", "draws"}.
nlohmann::json to_json(const Card& card, DeviceKind home);

}  // namespace ladder
