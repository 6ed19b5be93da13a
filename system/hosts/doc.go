// Package hosts is a replica's share of the host: cores, memory channels and links, and what attention takes on them.
//
// All of it is host_cpus.go. Read system/kinds/cpu_offload.go next, which has requests there.
package hosts
