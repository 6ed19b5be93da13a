// Package system serves a trace of requests on a node: replicas, routers, the API server, and the result of a run.
//
// Start at Node.Run (node.go), then router.go, replica.go, the loop of one replica, and result.go. Package system/kinds
// defines the systems; system/gpus, system/ranks and system/hosts are the devices; system/flow has the operations, and
// system/dataflow runs them. policies.go adds a program's own policies and systems. lab/docs/model-node.md states the model
// and its assumptions.
package system
