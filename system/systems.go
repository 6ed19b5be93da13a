package system

import (
	"math/rand/v2"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/traces"
)

// System is one of the systems that a node can be: L3 or one that its paper
// compares it with (section 6.1). All share the models of GPUs, memory and links,
// and the queues.
type System struct {
	Name     string `json:"name"`     // value of run.system
	Hardware string `json:"hardware"` // where keys and values are and what attends over them
	Schedule string `json:"schedule"`
	Source   string `json:"source"`
	Sections string `json:"sections"`  // of the configuration, that are its own
	Host     bool   `json:"host_dram"` // it uses the host's memory

	assemble func(n *Node, requests []traces.Request, o Options, check *checker, stream func(uint64) *rand.Rand) assembly
	memory   func(n *Node) kvMemory
	tracks   func(n *Node) []string // of a timeline
	kvPlace  string                 // where keys and values are
}

// Systems returns all systems, in the order of configs.Systems.
func Systems() []System { return append([]System(nil), systems...) }

var systems = []System{
	{
		Name:     configs.SystemL3,
		Hardware: "KV in DIMMs, decode attention on a processing unit beside each bank; prefill and all products on the GPUs",
		Schedule: "two sub-batches, one on the GPUs while the other is in the DIMMs; prompts cut to fill the GPUs' time",
		Source:   "L3, sections 4 and 5",
		Sections: "dram, pim, pcie, comm, scheduler, predictor",
		Host:     true,
		assemble: assembleL3, memory: (*Node).rankMemory, kvPlace: "in the DIMMs", tracks: (*Node).ranksetTracks,
	},
	{
		Name:     configs.SystemGPUOnly,
		Hardware: "KV in what the weights leave of the GPUs' memory, in pages; all on the GPUs",
		Schedule: "continuous batching, prefill first or chunked",
		Source:   "L3, section 6.1; vLLM (Kwon et al., SOSP 2023); Sarathi-Serve (Agrawal et al., OSDI 2024)",
		Sections: "gpu_only, batching",
		assemble: assembleGPUOnly, memory: (*Node).gpuMemory, kvPlace: "on its GPUs", tracks: gpuTracks(""),
	},
	{
		Name:     configs.SystemHBMPIM,
		Hardware: "KV in what the weights leave of the GPUs' memory; decode attention on units in that memory, beside the GPUs",
		Schedule: "prefill first, or chunked; decode in two sub-batches, one on the GPUs while the other is in the memory",
		Source:   "L3, section 6.1; NeuPIMs (Heo et al., ASPLOS 2024); AttAcc (Park et al., ASPLOS 2024)",
		Sections: "hbm_pim, batching",
		assemble: assembleHBMPIM, memory: (*Node).gpuMemory, kvPlace: "on its GPUs", tracks: gpuTracks("HBM-PIM"),
	},
	{
		Name:     configs.SystemRankPIM,
		Hardware: "KV in DIMMs, decode attention on a processing unit a rank, which reads at the channel's rate; transfers hidden",
		Schedule: "prefill first, or chunked; a single batch",
		Source:   "L3, section 6.1; Hermes (Liu et al., ASPLOS 2025)",
		Sections: "rank_pim, batching, dram, pim",
		Host:     true,
		assemble: assembleRankPIM, memory: (*Node).rankMemory, kvPlace: "in the DIMMs", tracks: (*Node).ranksetTracks,
	},
	{
		Name:     configs.SystemCPUOffload,
		Hardware: "KV on the GPUs or in the host's memory, a request whole; the host's CPUs attend for what is there",
		Schedule: "two sub-batches, the CPUs' attention under the GPUs' work, where that is faster than the GPUs alone, which batch as gpu-only does",
		Source:   "L3, section 6.1; NEO (Jiang et al., MLSys 2025); FastDecode (He and Zhai, 2024)",
		Sections: "cpu_offload, batching, gpu_only, pcie",
		Host:     true,
		assemble: assembleCPUOffload, memory: (*Node).bothMemories, kvPlace: "on its GPUs and the host", tracks: gpuTracks("CPU"),
	},
}

// systemOf returns the system of a name that has been validated.
func systemOf(name string) *System {
	for i := range systems {
		if systems[i].Name == name {
			return &systems[i]
		}
	}
	return nil
}

// gpuTracks names the resources of a system with one device beside its GPUs.
func gpuTracks(device string) func(*Node) []string {
	return func(*Node) []string { return []string{"GPU", "", "", "", "", device} }
}
