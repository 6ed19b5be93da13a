// Package requests compares a run of the system gpu-only with the log of a measured server, request by request.
//
// Read takes LLMServingSim's, vLLM's and AIPerf's logs, with the server's settings where a log has them. Judge runs
// the requests and returns a Report. Times are judged by predicted over measured, less 1, the queue in seconds. Client and
// server have clocks of their own: the request that was queued soonest after its arrival sets one to the other.
//
// Settings that a log lacks are keys; all else is vLLM's: prompts in chunks beside decoding, iterations formed ahead, 0.9
// of the memory, pages of 16 tokens, and a prefix cache unless the server had none, is older than 0.8, or cannot have one
// (windows by layer, policies that select, pages that do not divide 512). Requests that failed, were cancelled or warmed
// up are left out. A log's queue ends where a request is scheduled, a run's where its iteration begins, one later.
//
// lab/docs/validation.md has the results.
//
// Start at Log (read.go), then formats.go, settings.go and judge.go.
package requests
