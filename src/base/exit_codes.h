// How the program ends, for those who start it.
#pragma once

namespace ng {

inline constexpr int kFailed = 1;            ///< said in one line
inline constexpr int kWrongCommandLine = 2;  ///< the same
inline constexpr int kLostRank = 3;          ///< another rank does not answer: not this one's fault
inline constexpr int kOutOfTime = 4;         ///< its time is over: the same command goes on
inline constexpr int kSignal = 128;          ///< + its number, of who was ended or stopped by one

}  // namespace ng
