// Phases that put work off, for variants on any device: each file that includes this has assign, update and download
// for its own state, whose workspace holds `due` and `steps_due`.
#pragma once
#include <cstddef>
#include <utility>

/// labels_in_download: what assign was asked for is done by whatever needs it.
template <class S>
void late_assign(S& s) {
  s.ws.due = true;
}
template <class S>
void late_update(S& s) {
  if (std::exchange(s.ws.due, false)) assign(s);
  update(s);
}
template <class S>
void late_download(S& s) {
  if (std::exchange(s.ws.due, false)) assign(s);
  download(s);
}

/// solve_in_download: likewise a whole solve.
template <class S>
void late_solve(S& s) {
  s.reassigned.assign(size_t(s.problem.stop.iterations), -1);
  s.ws.steps_due = s.problem.stop.iterations;
}
template <class S>
void solving_download(S& s) {
  for (; s.ws.steps_due > 0; --s.ws.steps_due) assign(s), update(s);
  download(s);
}
