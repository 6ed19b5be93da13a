package results

import (
	"encoding/json"
	"io"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/traces"
)

// Schema names the version of Summary's JSON. It changes when a key is removed or changes its
// meaning, not when a key is added.
const Schema = "l3sim/run/2"

// Summary is the result of one run. Its JSON has the keys in this order. The
// same configuration and seed give the same bytes, but for wall_s.
type Summary struct {
	About
	Throughput
	SLO SLO `json:"slo_ms"`
	Latencies
	Service
	Utilization  Utilization  `json:"utilization"`
	Waits        Waits        `json:"waits"`
	Energy       Energy       `json:"gpu_energy"`
	EnergyReport EnergyReport `json:"site_energy"` // of the whole node and what the site adds
	Cost         CostReport   `json:"cost"`
	// DIMMsPerChannel is the number of DIMMs on a memory channel.
	DIMMsPerChannel int `json:"dimms_per_channel"`
	// BeyondBoards says that no server board has DIMMsPerChannel slots at their rate: hardware that nobody can buy.
	BeyondBoards bool `json:"beyond_boards"`
	// RanksetImbalance is the busiest rankset's attention time within a layer of a sub-batch over the
	// mean of all ranksets, weighted by time: at least 1, and 0 if nothing decodes.
	RanksetImbalance float64 `json:"rankset_imbalance"`
	KVBytes          KVBytes `json:"kv_bytes"`
	// KVFragmentation is the share of allocated rows that reserved tokens do not fill, as a mean over
	// time. Rows are allocated whole.
	KVFragmentation float64   `json:"kv_fragmentation"`
	Attention       Attention `json:"attention"`
	// Cache is the prefix cache; left out without one.
	Cache Cache `json:"cache,omitzero"`
	// APIServer is the process before the engine; left out if it takes no time.
	APIServer APIServer `json:"api_server,omitzero"`
	// GPUTime says how well the kernels are known that fill the GPUs' time.
	GPUTime Known   `json:"gpu_time,omitzero"`
	WallS   float64 `json:"wall_s"` // time that the simulation itself took, in seconds
	// Doubts are assumptions that make a number doubtful; left out if there are none.
	Doubts []string `json:"warnings,omitempty"`
	// Notes are all other assumptions behind the numbers; left out if there are none.
	Notes []string `json:"notes,omitempty"`
}

// About says what was simulated.
type About struct {
	Schema string `json:"schema"` // Schema
	System string `json:"system"`
	// Variant is the preset's set of keys for the run's system (run.variant); left out if there is none.
	Variant string `json:"variant,omitempty"`
	Model   string `json:"model"`
	GPU     string `json:"gpu"`
	Trace   Trace  `json:"trace"`
	// Arrivals is how the requests arrived.
	Arrivals     Arrivals `json:"arrivals"`
	Seed         uint64   `json:"seed"`
	ConfigSHA256 string   `json:"config_sha256"` // of the effective configuration, in hexadecimal
}

// Throughput is rates of service.
type Throughput struct {
	// SimulatedS is the time from 0 to the last finish, in simulated seconds.
	SimulatedS float64 `json:"simulated_s"`
	// OutputTokensPerS is the number of tokens emitted over SimulatedS.
	OutputTokensPerS float64 `json:"output_tokens_per_s"`
	TotalTokensPerS  float64 `json:"total_tokens_per_s"` // prompts of the requests served, and output
	RequestsPerS     float64 `json:"requests_per_s"`     // served
	// Goodput counts the requests that attain the targets of [slo], all served ones without targets.
	Goodput Goodput `json:"goodput"`
}

// Latencies are those of requests and of the gaps between tokens.
type Latencies struct {
	// TBT is over all gaps of all requests from the first token to the last: those of
	// TBTDecode and of Stall together.
	TBT Latency `json:"tbt_ms"`
	// TBTDecode is over the gaps that are no stalls.
	TBTDecode Latency `json:"tbt_decode_ms"`
	// Stall is over the gaps in which the request was preempted, swapped between GPUs and host, or sat
	// out steps that others took.
	Stall Stalls  `json:"stall_ms"`
	TTFT  Latency `json:"ttft_ms"` // arrival to first token, over requests
	E2E   Latency `json:"e2e_ms"`  // arrival to last token, over requests
	// Queue is the time from arrival to the start of the iteration that prefills a prompt's first
	// tokens, over requests.
	Queue Latency `json:"queue_ms"`
	// TPOT is a request's time from first token to last divided by its number of gaps, over requests
	// of at least two tokens.
	TPOT Latency `json:"tpot_ms"`
	// TokensPerSPerUser is the rate at which the median user receives tokens after the first, in
	// tokens/s: 1,000 over the median of TPOT. Benchmarks of serving call it interactivity. 0 without such requests.
	TokensPerSPerUser float64 `json:"output_tokens_per_s_per_user"`
}

// Service is how requests passed through iterations, and which did not.
type Service struct {
	// RequestsInSystem is the mean over time of the requests that wait or are served.
	RequestsInSystem float64 `json:"requests_in_system_mean"`
	// Saturated says that the node could not keep up with the arrivals: percentiles of TTFT
	// depend on how long the run is.
	Saturated bool `json:"saturated"`
	// DecodeBatch is the number of decoding requests in an iteration.
	DecodeBatch      Batch     `json:"decode_batch"`
	Iteration        Iteration `json:"iteration_ms"`
	Iterations       int64     `json:"iterations"`                  // summed over replicas
	RejectedRequests int64     `json:"rejected_requests"`           // they fit no empty memory, or are longer than the model's context
	TooLongRequests  int64     `json:"too_long_requests,omitempty"` // rejected requests longer than model.context, with serving.beyond_context = "refuse"
	RefusedRequests  int64     `json:"refused_requests"`            // too many waited when they came (serving.max_waiting)
	ExpiredRequests  int64     `json:"expired_requests"`            // they waited longer than serving.deadline
	Preemptions      int64     `json:"preemptions"`                 // times that a request lost its memory
}

// Attention is the attended tokens of decode steps; each step of a request counts once.
type Attention struct {
	Policy string `json:"policy"`
	// Context is the mean context of a step in tokens, its own included.
	Context float64 `json:"context_tokens_mean"`
	// Attended is the mean number of tokens of its context that a KV head attended to, over all
	// layers.
	Attended float64 `json:"attended_tokens_mean"`
	// ByLayer is Attended of each layer; empty for dense attention.
	ByLayer []float64 `json:"attended_tokens,omitempty"`
}

// Arrivals is how the requests of a run arrived: the kind of arrivals, and the mean rate. The rate
// is 0 if all arrived at once; for a closed loop it is the one that resulted.
type Arrivals struct {
	Kind     string  `json:"kind"`
	RatePerS float64 `json:"rate_per_s"`
}

// Goodput counts the requests that attain the latency targets.
type Goodput struct {
	Attainment   float64 `json:"attainment"` // their share of all requests, with those not served
	RequestsPerS float64 `json:"requests_per_s"`
	TokensPerS   float64 `json:"tokens_per_s"` // output tokens
}

// Target is a latency target in milliseconds; 0: none, null in JSON.
type Target float64

// MarshalJSON writes null if there is no target.
func (t Target) MarshalJSON() ([]byte, error) {
	if t == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(float64(t))
}

// Trace describes the requests of a run; lengths in tokens.
type Trace struct {
	Name         string  `json:"name"`
	Requests     int     `json:"requests"`      // number of requests
	InputTokens  int64   `json:"input_tokens"`  // of all prompts
	OutputTokens int64   `json:"output_tokens"` // of all outputs
	InputMean    float64 `json:"input_mean"`    // of a prompt
	InputStd     float64 `json:"input_std"`     // standard deviation of prompts
	OutputMean   float64 `json:"output_mean"`   // of an output
	OutputStd    float64 `json:"output_std"`    // standard deviation of outputs
}

// DescribeTrace returns the description of t, with the moments of its own requests.
func DescribeTrace(t *traces.Trace) Trace {
	m := t.Moments()
	return Trace{
		Name: t.Name, Requests: m.Requests,
		InputTokens: m.InputTokens, OutputTokens: m.OutputTokens,
		InputMean: m.InputMean, InputStd: m.InputStd,
		OutputMean: m.OutputMean, OutputStd: m.OutputStd,
	}
}

// Latency summarises a distribution of times, in milliseconds; percentiles are of nearest rank. All
// are 0 without samples.
type Latency struct {
	Mean float64 `json:"mean"` // on average
	P50  float64 `json:"p50"`  // median
	P90  float64 `json:"p90"`  // 90th percentile
	P95  float64 `json:"p95"`  // 95th percentile
	P99  float64 `json:"p99"`  // 99th percentile
	Max  float64 `json:"max"`  // the longest
}

// Stalls summarises the gaps between tokens that are stalls: their number, and times in
// milliseconds as in Latency.
type Stalls struct {
	Count int64   `json:"count"` // how many
	Mean  float64 `json:"mean"`  // on average
	P99   float64 `json:"p99"`   // 99th percentile
	Max   float64 `json:"max"`   // the longest
}

// Batch is a number of decoding requests, summed over the replicas.
type Batch struct {
	Mean float64 `json:"mean"` // over time: 0 in iterations that only prefill
	// StepMean is the mean over the iterations that decode; each counts once, whatever its time.
	StepMean float64 `json:"step_mean"`
	Max      int     `json:"max"`
}

// Iteration is the time of the GPUs of a replica in an iteration, as a mean over all, in
// milliseconds: Dense, Attention and Waiting sum to Mean.
type Iteration struct {
	Mean      float64 `json:"mean"`
	Dense     float64 `json:"dense"`     // all operations but attention, with their all-reduces
	Attention float64 `json:"attention"` // on the GPUs: of prompts, and of decode if no other device attends
	Waiting   float64 `json:"waiting"`   // for attention elsewhere, and for transfers
}

// Energy is the energy of all GPUs of the node from 0 to the last finish, in joules, without memory
// and processing units beside them.
type Energy struct {
	GPU     float64 `json:"total_j"`            // Prefill, Decode and Idle together
	Prefill float64 `json:"prefill_j"`          // prompts: their attention, and their share of all else by tokens
	Decode  float64 `json:"decode_j"`           // requests that decode: their attention, and their share of all else by tokens
	Idle    float64 `json:"idle_j"`             // active idle between kernels
	Token   float64 `json:"per_output_token_j"` // GPU over output tokens
}

// Utilization is the share of the simulated time in which the resources of a
// kind work, from 0 to 1, averaged over them.
type Utilization struct {
	GPU      float64 `json:"gpu"`       // of the GPUs
	PIM      float64 `json:"pim"`       // of the units in memory
	PCIeDown float64 `json:"pcie_down"` // GPU to DIMM
	PCIeUp   float64 `json:"pcie_up"`   // DIMM to GPU
	Channel  float64 `json:"channel"`   // of the memory channels
}

// Waits is what GPUs and PIM ranks wait for while they idle, as shares of the simulated time, from 0 to 1, averaged over
// them. With Utilization of the GPUs, or of PIM, the shares add up to 1.
type Waits struct {
	GPU GPUWaits `json:"gpu"`
	PIM PIMWaits `json:"pim,omitzero"` // left out without PIM
}

// GPUWaits is the waits of GPUs by cause.
type GPUWaits struct {
	PIM        float64 `json:"pim_share"`         // attention in DIMMs or HBM, for the mean rankset's time
	Imbalance  float64 `json:"imbalance_share"`   // the slowest rankset's time beyond the mean
	LinkDown   float64 `json:"link_down_share"`   // transfers from GPUs to memory
	LinkUp     float64 `json:"link_up_share"`     // transfers from memory to GPUs
	Channel    float64 `json:"channel_share"`     // memory channels and their controllers
	Host       float64 `json:"host_share"`        // the host's CPUs: their attention, or noticing that a device has ended
	NoRequests float64 `json:"no_requests_share"` // no requests in the system
}

// PIMWaits is the waits of PIM ranks by cause.
type PIMWaits struct {
	GPU        float64 `json:"gpu_share"`            // work of GPUs
	LinkDown   float64 `json:"link_down_share"`      // transfers from GPUs to memory
	LinkUp     float64 `json:"link_up_share"`        // transfers from memory to GPUs
	Channel    float64 `json:"channel_share"`        // memory channels and their controllers
	Host       float64 `json:"host_share"`           // the host's CPUs
	Others     float64 `json:"other_ranksets_share"` // ranksets that still work, and transfers that interrupt
	NoRequests float64 `json:"no_requests_share"`    // no requests in the system
}

// KVBytes is the memory for the KV cache, over the whole node.
type KVBytes struct {
	Capacity int64 `json:"capacity"` // all of it
	Peak     int64 `json:"peak"`     // the most in use at once
}

// APIServer is the work of the process between users and engine.
type APIServer struct {
	Utilization float64 `json:"utilization"`
}

// Cache is the work of the prefix cache, over the whole node.
type Cache struct {
	// HitTokens are prompt tokens found in the cache that other requests had computed. Prompts recomputed after a preemption do not
	// count.
	HitTokens  int64   `json:"hit_tokens"`
	MissTokens int64   `json:"miss_tokens"` // all other prompt tokens; prompts recomputed after a preemption do not count
	HitRate    float64 `json:"hit_rate"`    // HitTokens over both
	// EvictedBlocks is the number of evicted blocks.
	EvictedBlocks int64 `json:"evicted_blocks"`
	// Peak is the largest memory of all blocks, in use or not.
	Peak int64 `json:"bytes_peak"`
	// Transferred is the keys and values of prefixes that were copied to the GPUs.
	Transferred int64 `json:"prefix_transfer_bytes"`
	// Offloaded is the keys and values of blocks that were evicted from the GPUs to the host.
	Offloaded int64 `json:"offloaded_bytes"`
	// Spared is the context tokens that decode steps did not read again, since one read served several requests.
	Spared int64 `json:"spared_tokens"`
}

// WriteJSON writes the summary as one indented JSON object and a line end. Schema is filled in.
func (s *Summary) WriteJSON(w io.Writer) error {
	if s == nil {
		return errNoSummary
	}
	named := *s
	named.Schema = Schema
	return WriteJSON(w, &named)
}

// errNoSummary is the error of a nil Summary.
var errNoSummary error = &input.Error{Key: "summary", Value: "nil", Expected: "one that a run returned"}

// WriteJSON writes a value as indented JSON and a line end, like all JSON of l3sim.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
