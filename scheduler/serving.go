package scheduler

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Routers: the replica that a request goes to.
const (
	RouteRoundRobin = "round-robin"
	// RouteLeastKV takes the replica with the fewest tokens of requests, those that wait
	// included, at their lengths so far.
	RouteLeastKV = "least-kv"
	// RouteLeastOutstanding takes the one with the fewest tokens left to prefill and to emit.
	RouteLeastOutstanding = "least-outstanding"
	// RoutePrefixAffinity takes the same, but that tokens of this request's prompt that a replica has in its cache do not
	// count there.
	RoutePrefixAffinity = "prefix-affinity"
)

// ServingSpec is the section [serving]: what a server does with the requests that come.
type ServingSpec struct {
	// Router says which replica a request goes to: "round-robin", "least-kv" (tokens in memory and in the queue),
	// "least-outstanding" (tokens left to prefill and to emit) or "prefix-affinity" (the same, less those of its prompt in the cache).
	Router string `toml:"router"`
	// MaxWaiting bounds the requests that wait for their prompt on a replica; more are refused. 0: no limit.
	MaxWaiting int `toml:"max_waiting"`
	// Deadline is how long a request may wait for its prompt to begin; then it is dropped. 0s: no limit.
	Deadline units.Duration `toml:"deadline"`
	// PrefillStreak bounds the iterations in a row that only prefill while requests decode, of a policy that prefills first;
	// 0: no limit.
	PrefillStreak int `toml:"prefill_streak"`
	// APIRequest is what the process before the engine takes for a request that comes (HTTP, tokeniser), one after another.
	APIRequest units.Duration `toml:"api_request"`
	// APIToken is what the same process takes for a token that goes to its user (detokeniser, stream).
	APIToken units.Duration `toml:"api_token"`
}

// HasAPIServer says whether the process before the engine takes any time.
func (s *ServingSpec) HasAPIServer() bool { return s.APIRequest > 0 || s.APIToken > 0 }

// ServingDefaults is the sections [serving] and [slo] below all presets.
const ServingDefaults = `
[serving]
router = "round-robin" # request i to replica i mod replicas, as the paper divides them; imbalance of the replicas
max_waiting = 0        # 0: none is refused, as in vLLM; TTFT of an overloaded server
deadline = "0s"        # 0s: none is dropped, as in vLLM; TTFT of an overloaded server
prefill_streak = 0     # 0: decoding waits as long as prompts find memory, as in vLLM's first scheduler; the tail of TBT
api_request = "0s"     # 0s: the paper counts none; l3lab validate finds 15ms of TensorRT-LLM 1.0; TTFT of many short requests
api_token = "0s"       # 0s: the same; 70us of it; throughput and TTFT of many users

[slo]
ttft = "0s"       # no target; --slo
tbt = "0s"        # no target; --slo
attainment = 0.99 # our choice: the share of requests that must meet both targets; the rate of 'l3sim capacity'
`

// Check has the rules of the section [serving].
func (s *ServingSpec) Check(c *input.Check) {
	input.OneOf(c, "router", s.Router, RouteRoundRobin, RouteLeastKV, RouteLeastOutstanding, RoutePrefixAffinity)
	c.That(s.MaxWaiting >= 0 && s.MaxWaiting <= 1<<24, "max_waiting", s.MaxWaiting, "0 (no limit) to 16777216")
	c.That(s.Deadline >= 0, "deadline", s.Deadline, "at least 0s (no limit)")
	c.That(s.APIRequest >= 0 && s.APIRequest <= units.Second, "api_request", s.APIRequest, "0s to 1s")
	c.That(s.APIToken >= 0 && s.APIToken <= units.Second, "api_token", s.APIToken, "0s to 1s")
	c.That(s.PrefillStreak >= 0 && s.PrefillStreak <= 1<<24, "prefill_streak", s.PrefillStreak, "0 (no limit) to 16777216")
}

// SLO is the section [slo]: targets of latency. A request attains them if its TTFT, and the
// 99th percentile of its own times between tokens, are not above them.
type SLO struct {
	TTFT units.Duration `toml:"ttft"` // target of the time to the first token; 0s: none
	TBT  units.Duration `toml:"tbt"`  // target of the 99th percentile of a request's times between tokens; 0s: none
	// Attainment is the share of requests that must attain the targets.
	Attainment float64 `toml:"attainment"`
}

// Given says that there is a target.
func (s *SLO) Given() bool { return s.TTFT > 0 || s.TBT > 0 }

// Check has the rules of the section [slo].
func (s *SLO) Check(c *input.Check) {
	c.That(s.TTFT >= 0, "ttft", s.TTFT, "at least 0s (no target)")
	c.That(s.TBT >= 0, "tbt", s.TBT, "at least 0s (no target)")
	c.Share("attainment", s.Attainment)
}
