// Package flow holds what every system of a node shares: the hardware that a configuration describes, the operations
// of an iteration on the resources of a replica, the categories of their time, and the laws that a checked run obeys.
// It knows no device.
//
// Read hardware.go for what a node is, then flow.go for how an iteration is filled, run, booked and recorded. work.go
// has the amounts of work by resource, attention.go asks the policy what is attended over, check.go has the laws.
// Read package system/dataflow next, which runs the operations, or system/gpus, the first device.
package flow
