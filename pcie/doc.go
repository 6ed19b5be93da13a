// Package pcie models the PCI Express links between GPUs and host memory: the
// latency and the bandwidth of a GPU's link, and of the uplink that the GPUs on
// a switch share. docs/gpu.md reports the fit to measurements.
package pcie
