// Package offload forms the iterations of GPUs whose host has a memory and CPUs of its own: keys and values of some requests are on
// the host, where its CPUs compute their attention beside the GPUs' work (NEO: Jiang et al., MLSys 2025; FastDecode: He and
// Zhai, 2024).
//
// Read offload.go: Former.Form is one iteration. offload_help.go chooses the host's requests that take part, offload_memory.go and
// offload_pays.go who goes to which memory, offload_moves.go swaps requests between them, offload_idle.go has those stay
// for which the GPUs would wait, offload_check.go bounds waits. What is asked of the hardware is in Costs.
package offload
