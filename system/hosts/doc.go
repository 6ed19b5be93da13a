// Package hosts models a replica's share of the host: cores, memory channels and links, and the time of attention on
// them.
//
// All of it is in host_cpus.go. Read system/kinds/cpu_offload.go next, which keeps requests there.
package hosts
