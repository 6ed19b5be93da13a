// Package l3sim simulates LLM serving on systems with processing in memory. It is the programming interface of this
// module: it loads configurations, runs and compares systems, sweeps, replays DRAM requests, and times and verifies a
// head of attention. Nothing in it prints, reads flags or ends a process. An error about input is an *Error.
//
//   - Load, or Extend with policies and systems of your own, gives a Config.
//   - Run and Compare serve the requests that it names; NewNode serves others, and records more.
//   - Sweep runs the points of a sweep file.
//   - NewDRAM and Replay are a memory controller, without a system.
//   - TimeHead and VerifyHead are attention of one head on the units in DRAM: its clocks, and its values.
//
// The types are those of packages below, which offer more: system, configs, dram, pim and others. docs/library.md has
// a program for each use, docs/reference/policies-and-systems.md one with a policy and a system.
package l3sim
