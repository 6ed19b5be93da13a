// Package system simulates a whole node: GPUs, PCIe links, memory channels and
// ranksets of DIMM-PIM, driven by the scheduler over a trace of requests.
//
// A Node is the hardware of a configuration. Each data-parallel replica has a run
// loop (replica.go): the scheduler forms an iteration, the system turns it into
// operations on its resources, and package dataflow runs them. Each system is a file;
// flow.go is what they share. attention.go asks the policy what is attended over;
// costs.go, shipment.go and gpu_side.go turn that into times.
//
// Start at Node.Run (node.go), then read gpu_only.go, the shortest system, and l3_flow.go for
// the dataflow of Fig 7 of the L3 paper; then package dataflow. docs/lab/node.md states the
// model and its assumptions.
package system
