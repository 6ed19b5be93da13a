// Package requests compares a run of the system gpu-only with the log of a measured server, request by request.
//
// Read takes LLMServingSim's, vLLM's and AIPerf's logs, with the server's settings where a log has them. Judge runs
// the requests and returns a Report. lab/docs/requests.md has the results.
//
// Start at Log (read.go), then formats.go, settings.go and judge.go.
package requests
