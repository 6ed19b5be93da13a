// Package system simulates a whole node: GPUs, PCIe links, memory channels and
// ranksets of DIMM-PIM, driven by the scheduler over a trace of requests.
//
// A Node is the hardware of a configuration. Each data-parallel replica has a
// run loop (replica.go) on the event queue of package sim: the scheduler forms
// an iteration, devices (costs.go) turn it into the durations of its tasks, and
// the pipeline (pipeline.go, transfer.go) runs the layers' dataflow of Fig 7 of
// the L3 paper on the resources. Successive layers repeat, and repeat.go skips
// the repeats exactly; waves.go runs iterations that only decode in fewer steps.
//
// Start at Node.Run, then read pipeline.go. docs/node.md states the model and
// its assumptions.
package system
