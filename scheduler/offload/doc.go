// Package offload forms the iterations of GPUs that offload attention to their host: keys and values of some requests are in the
// host's memory, and its CPUs compute their attention while the GPUs work (NEO: Jiang et al., MLSys 2025; FastDecode: He and Zhai,
// 2024).
//
// Read offload.go: Former.Form is one iteration. offload_help.go chooses the host's requests that take part, offload_memory.go and
// offload_pays.go the memory of a request. offload_moves.go swaps requests between memories, offload_idle.go keeps a request on
// the host if the GPUs would have to wait for its swap, and offload_check.go bounds waits. Costs is the interface to the hardware.
package offload
