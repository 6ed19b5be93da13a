// Package pcie models the PCI Express links between GPUs and host memory: the latency and the bandwidth of a GPU's link, and of
// the uplink that the GPUs on a switch share. lab/docs/model-gpu.md reports the fit to measurements.
//
// Start at Spec. The packages below system use its times: the latency in system/kinds/l3_flow.go (resources) and
// system/kinds/cpu_offload.go, bytes and pieces of transfers in system/ranks/shipment.go. system/dataflow/link.go schedules the
// transfers on the link.
package pcie
