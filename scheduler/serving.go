package scheduler

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Routers: the replica that a request goes to.
const (
	RouteRoundRobin = "round-robin"
	// RouteLeastKV takes the replica whose requests, waiting ones included, have the fewest tokens so
	// far.
	RouteLeastKV = "least-kv"
	// RouteLeastOutstanding takes the replica with the fewest tokens left to prefill and to emit.
	RouteLeastOutstanding = "least-outstanding"
	// RoutePrefixAffinity is RouteLeastOutstanding without the prompt tokens of this request that the replica has in its
	// cache.
	RoutePrefixAffinity = "prefix-affinity"
)

// What happens to requests longer than the model's context.
const (
	BeyondRefuse = "refuse"
	BeyondWarn   = "warn"
	BeyondClip   = "clip"
	BeyondIgnore = "ignore"
)

// ServingSpec is the section [serving]: how a server handles arriving requests.
type ServingSpec struct {
	// Router says which replica a request goes to: "round-robin", "least-kv" (tokens in memory and in the queue),
	// "least-outstanding" (tokens left to prefill and to emit) or "prefix-affinity" (the same, less those of its prompt in the cache).
	Router string `toml:"router"`
	// BeyondContext says what happens to a request whose prompt and answer exceed model.context: "refuse" rejects it; "clip"
	// cuts its answer at the context, and its prompt one token before; "warn" serves it with a warning; "ignore" serves it.
	BeyondContext string `toml:"beyond_context"`
	// MaxWaiting bounds the requests that wait for their prompt on a replica; more are refused. 0: no limit.
	MaxWaiting int `toml:"max_waiting"`
	// Deadline is how long a request may wait for its prompt to begin; then it is dropped. 0s: no limit.
	Deadline units.Duration `toml:"deadline"`
	// Prefill says where prompts run: "here", or "elsewhere", on servers whose times are not simulated. From there keys and values arrive over a
	// link with the first token; the time to first token is the wait for memory and the link.
	Prefill string `toml:"prefill"`
	// PrefillBandwidth is the bandwidth of a replica's link, which carries the stored bytes of each prompt
	// once.
	PrefillBandwidth units.Bandwidth `toml:"prefill_bandwidth"`
	// PrefillLatency is the time of a transfer beyond its bytes; it does not delay other transfers.
	PrefillLatency units.Duration `toml:"prefill_latency"`
	// PrefillStreak bounds the consecutive iterations that only prefill while requests decode, for a policy that prefills
	// first; 0: no limit.
	PrefillStreak int `toml:"prefill_streak"`
	// APIRequest is the time that the process before the engine (HTTP, tokeniser) takes for each request that comes, one
	// after another.
	APIRequest units.Duration `toml:"api_request"`
	// APIToken is the time that the same process takes for each token that goes to its user
	// (detokeniser, stream).
	APIToken units.Duration `toml:"api_token"`
	// VerifiedTokens is how many tokens each decode step of a request verifies: the known one and the drafts after it (speculative
	// decoding); 1: no drafts.
	VerifiedTokens int `toml:"verified_tokens"`
	// Acceptance is the chance that a draft is accepted if all drafts before it in the step were; 0: not given, as without
	// drafts.
	Acceptance float64 `toml:"acceptance"`
	// VerifiedOverlap is the share of selected pages (or an indexer's tokens) that two tokens of a step are sure to share: 1 if all select alike, 0 if
	// they overlap only by chance.
	VerifiedOverlap float64 `toml:"verified_overlap"`
	// DraftTime is the time of the draft model in each iteration that decodes; nothing else runs meanwhile.
	DraftTime units.Duration `toml:"draft_time"`
}

// Values of ServingSpec.Prefill.
const (
	PrefillHere      = "here"
	PrefillElsewhere = "elsewhere"
)

// HasAPIServer says whether the process before the engine takes any time.
func (s *ServingSpec) HasAPIServer() bool { return s.APIRequest > 0 || s.APIToken > 0 }

// Verified returns how many tokens each decode step of a request verifies, at least 1.
func (s *ServingSpec) Verified() int { return max(1, s.VerifiedTokens) }

// Speculation returns how decode steps verify drafts, with the seed of a run.
func (s *ServingSpec) Speculation(seed uint64) Speculation {
	if s.VerifiedTokens <= 1 {
		return Speculation{}
	}
	return Speculation{Verified: s.VerifiedTokens, Acceptance: s.Acceptance, Seed: seed}
}

// ServingDefaults is the sections [serving] and [slo] below all presets.
var ServingDefaults = `
[serving]
router = "round-robin" # request i to replica i mod replicas, as the paper divides them; imbalance of the replicas
beyond_context = "warn" # served, though no server would: vLLM refuses; requests longer than model.context
max_waiting = 0        # 0: none is refused, as in vLLM; TTFT of an overloaded server
deadline = "0s"        # 0s: none is dropped, as in vLLM; TTFT of an overloaded server
prefill = "here"       # as the paper has it; "elsewhere" for a decode server, as in DistServe and Mooncake; TTFT, TBT
prefill_bandwidth = "0B/s" # 0B/s: no link; 50GB/s is a 400 Gbit/s network card; TTFT with prefill = "elsewhere"
prefill_latency = "0s" # 0s: none; tens of microseconds of RDMA; the same
prefill_streak = 0     # 0: decoding waits as long as prompts find memory, as in vLLM's first scheduler; the tail of TBT
api_request = "0s"     # 0s: the paper counts none; l3lab validate finds 15ms of TensorRT-LLM 1.0; TTFT of many short requests
api_token = "0s"       # 0s: the same; 70us of it; throughput and TTFT of many users
verified_tokens = 1    # 1: no speculative decoding, as in the paper; 2 to 128 tokens a decode step; TBT and throughput
acceptance = 0.0       # 0.0: not given; a draft model's own, mostly 0.5 to 0.8 in Leviathan et al., ICML 2023 (from memory, not looked up); with verified_tokens > 1
verified_overlap = 0.65 # Quest and LServe on a byte model's text, 0.58 to 0.71 by budget: lab/docs/sparse.md; pages that quest and lserve read with verified_tokens > 1
draft_time = "0s"      # 0s: drafts for nothing, as n-grams of the prompt nearly are; a draft model's time an iteration; with verified_tokens > 1
` + sloDefaults

// Check has the rules of the section [serving].
func (s *ServingSpec) Check(c *input.Check) {
	input.OneOf(c, "router", s.Router, RouteRoundRobin, RouteLeastKV, RouteLeastOutstanding, RoutePrefixAffinity)
	input.OneOf(c, "beyond_context", s.BeyondContext, BeyondRefuse, BeyondWarn, BeyondClip, BeyondIgnore)
	c.That(s.MaxWaiting >= 0 && s.MaxWaiting <= 1<<24, "max_waiting", s.MaxWaiting, "0 (no limit) to 16777216")
	c.That(s.Deadline >= 0, "deadline", s.Deadline, "at least 0s (no limit)")
	input.OneOf(c, "prefill", s.Prefill, PrefillHere, PrefillElsewhere)
	if elsewhere := s.Prefill == PrefillElsewhere; elsewhere {
		c.That(s.PrefillBandwidth >= 1e8 && s.PrefillBandwidth <= 1e15, "prefill_bandwidth", s.PrefillBandwidth, "100MB/s to 1000TB/s with %s = %q: the link over which keys and values come, as 50GB/s", input.Key("serving.prefill"), s.Prefill)
	} else {
		c.That(s.PrefillBandwidth == 0, "prefill_bandwidth", s.PrefillBandwidth, "0B/s with %s = %q: nothing comes over a link", input.Key("serving.prefill"), s.Prefill)
		c.That(s.PrefillLatency == 0, "prefill_latency", s.PrefillLatency, "0s with %s = %q: nothing comes over a link", input.Key("serving.prefill"), s.Prefill)
	}
	c.That(s.PrefillLatency >= 0 && s.PrefillLatency <= units.Second, "prefill_latency", s.PrefillLatency, "0s to 1s")
	c.That(s.APIRequest >= 0 && s.APIRequest <= units.Second, "api_request", s.APIRequest, "0s to 1s")
	c.That(s.APIToken >= 0 && s.APIToken <= units.Second, "api_token", s.APIToken, "0s to 1s")
	input.Within(c, "verified_tokens", s.VerifiedTokens, 1, 128)
	c.That(s.Acceptance >= 0 && s.Acceptance <= 1, "acceptance", s.Acceptance, "0 (not given) to 1")
	c.That(s.VerifiedTokens <= 1 || s.Acceptance > 0, "acceptance", s.Acceptance, "more than 0, at most 1, with %s = %d: "+
		"the chance that a draft is accepted, which the draft model decides", input.Key("serving.verified_tokens"), s.VerifiedTokens)
	c.That(s.VerifiedOverlap >= 0 && s.VerifiedOverlap <= 1, "verified_overlap", s.VerifiedOverlap, "0 (as by chance) to 1 (all tokens of a step select alike)")
	c.That(s.DraftTime >= 0 && s.DraftTime <= units.Second, "draft_time", s.DraftTime, "0s to 1s")
	c.That(s.PrefillStreak >= 0 && s.PrefillStreak <= 1<<24, "prefill_streak", s.PrefillStreak, "0 (no limit) to 16777216")
}
