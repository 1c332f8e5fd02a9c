// recipes search, a command below recipes.
#pragma once

#include "cli/command.h"

namespace ng::cli {

extern const Command kSearch;

}  // namespace ng::cli
