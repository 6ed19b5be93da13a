// Package system simulates a whole node: GPUs, PCIe links, memory channels and
// ranksets of DIMM-PIM, driven by the scheduler over a trace of requests.
//
// A Node is the hardware of a configuration. Each data-parallel replica has a run
// loop (replica.go): the scheduler forms an iteration, the system turns it into
// operations on its resources (flow.go, one file a system), and package dataflow
// runs them.
//
// Start at Node.Run, then read gpu_only.go, the shortest system, and l3_flow.go for
// the dataflow of Fig 7 of the L3 paper; then package dataflow. docs/node.md states the
// model and its assumptions.
package system
