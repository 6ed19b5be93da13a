// Package kinds has the systems that a node can be, one file each, and the list of them. A system says where keys and
// values are, and builds a replica from scheduler, devices and flow.
//
// Read gpu_only.go first, the shortest, then l3.go with l3_flow.go for the dataflow of Fig 7 of the L3 paper. engine.go
// is what a replica needs of a system, list.go the list, rules.go the rules between keys of several sections.
package kinds
