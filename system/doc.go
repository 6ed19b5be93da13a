// Package system serves a trace of requests on a node: replicas, routers, the API server, and the result of a run.
//
// Start at Node.Run (node.go), then router.go, replica.go, the loop of one replica, and result.go. What a system is, is in
// system/kinds; devices are in system/gpus, system/ranks and system/hosts; operations in system/flow, and
// system/dataflow runs them. policies.go has what a program adds to the module. lab/docs/model-node.md states the model and
// its assumptions.
package system
