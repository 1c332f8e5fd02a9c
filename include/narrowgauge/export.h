// Marks what the shared library exports.
#pragma once

#define NARROWGAUGE_API __attribute__((visibility("default")))
