// Package pcie models the PCI Express links between GPUs and host memory:
// the time of one transfer, and what concurrent transfers take when several
// GPUs share a switch's uplink.
//
// Spec gives a link's latency and bandwidth; Fabric is the state of all links
// of a node, which shares bandwidth max-min fairly and tells when each transfer
// ends. docs/gpu.md reports the fit to measurements.
package pcie
