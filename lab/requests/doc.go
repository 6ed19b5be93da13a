// Package requests compares a run of the system gpu-only with the log of a measured server, request by request.
//
// Read takes LLMServingSim's, vLLM's and AIPerf's logs, with the server's settings where a log has them. Judge runs
// the requests and returns a Report. Errors are predicted over measured, minus 1; those of the queue are in seconds.
// Client and server have separate clocks, which are aligned by the request that was queued soonest after its arrival.
//
// Keys give the settings that a log lacks. The defaults are vLLM's: prompts in chunks beside decoding, iterations formed
// ahead, 0.9 of the memory, pages of 16 tokens, and a prefix cache unless the server had none, is older than 0.8, or cannot have one
// (windows by layer, policies that select, pages that do not divide 512). Requests that failed, were cancelled or warmed
// up are left out. A log's queue ends when a request is scheduled, a run's one iteration later, when its iteration begins.
//
// lab/docs/validation.md has the results.
//
// Start at Log (read.go), then formats.go, settings.go and judge.go.
package requests
