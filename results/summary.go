package results

import (
	"encoding/json"
	"io"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/traces"
)

// Schema names the form of Summary's JSON. It changes when a key is removed or changes its
// meaning. A new key does not change it.
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
	// DIMMsPerChannel is how many DIMMs a memory channel has.
	DIMMsPerChannel int `json:"dimms_per_channel"`
	// BeyondBoards says that no board of a server has DIMMsPerChannel slots at their rate: hardware that nobody can buy.
	BeyondBoards bool `json:"beyond_boards"`
	// RanksetImbalance is the busiest rankset's attention time within a layer of a sub-batch over
	// the mean of all ranksets, weighted by time: at least 1, and 0 where nothing decodes.
	RanksetImbalance float64 `json:"rankset_imbalance"`
	KVBytes          KVBytes `json:"kv_bytes"`
	// KVFragmentation is the share of the rows in use that reserved tokens do not
	// fill, mean over time: whole rows are allocated.
	KVFragmentation float64   `json:"kv_fragmentation"`
	Attention       Attention `json:"attention"`
	// Cache is that of prefixes; left out where there is none.
	Cache Cache `json:"cache,omitzero"`
	// APIServer is the process before the engine; left out where that takes no time.
	APIServer APIServer `json:"api_server,omitzero"`
	// GPUTime is how well the kernels are known in which the GPUs spend their time.
	GPUTime Known   `json:"gpu_time,omitzero"`
	WallS   float64 `json:"wall_s"` // time that the simulation itself took, in seconds
	// Doubts are sentences on what makes a number doubtful; left out where there are none.
	Doubts []string `json:"warnings,omitempty"`
	// Notes are sentences on what else the numbers rest on that none of them says; left out where there are none.
	Notes []string `json:"notes,omitempty"`
}

// About is what was simulated.
type About struct {
	Schema string `json:"schema"` // Schema
	System string `json:"system"`
	// Variant is the preset's set of keys for the system that the run has (run.variant); left out where there is none.
	Variant string `json:"variant,omitempty"`
	Model   string `json:"model"`
	GPU     string `json:"gpu"`
	Trace   Trace  `json:"trace"`
	// Arrivals is how the requests came.
	Arrivals     Arrivals `json:"arrivals"`
	Seed         uint64   `json:"seed"`
	ConfigSHA256 string   `json:"config_sha256"` // of the effective configuration, in hexadecimal
}

// Throughput is what was served over time.
type Throughput struct {
	// SimulatedS is the time from 0 to the last finish, in simulated seconds.
	SimulatedS float64 `json:"simulated_s"`
	// OutputTokensPerS is the number of tokens emitted over SimulatedS.
	OutputTokensPerS float64 `json:"output_tokens_per_s"`
	TotalTokensPerS  float64 `json:"total_tokens_per_s"` // prompts of the requests served, and output
	RequestsPerS     float64 `json:"requests_per_s"`     // served
	// Goodput is of the requests that attain the targets of [slo], all that are served
	// where there are none.
	Goodput Goodput `json:"goodput"`
}

// Latencies are those of requests and of the gaps between tokens.
type Latencies struct {
	// TBT is over all gaps of all requests from the first token to the last: those of
	// TBTDecode and of Stall together.
	TBT Latency `json:"tbt_ms"`
	// TBTDecode is over the gaps that are no stalls.
	TBTDecode Latency `json:"tbt_decode_ms"`
	// Stall is over the gaps in which the request lost its memory and was computed
	// again, swapped between GPUs and host, or sat out steps that others took.
	Stall Stalls  `json:"stall_ms"`
	TTFT  Latency `json:"ttft_ms"` // arrival to first token, over requests
	E2E   Latency `json:"e2e_ms"`  // arrival to last token, over requests
	// Queue is the time from arrival to the start of the iteration that has a prompt's first
	// tokens, over requests.
	Queue Latency `json:"queue_ms"`
	// TPOT is a request's time from the first token to the last over the tokens between, over
	// requests of two tokens and more.
	TPOT Latency `json:"tpot_ms"`
	// TokensPerSPerUser is the rate at which the median user receives tokens after the first, in
	// tokens/s: 1,000 over the median of TPOT. Benchmarks of serving call it interactivity. 0 without such requests.
	TokensPerSPerUser float64 `json:"output_tokens_per_s_per_user"`
}

// Service is how requests went through iterations, and which did not.
type Service struct {
	// RequestsInSystem is the mean over time of the requests that wait or are served.
	RequestsInSystem float64 `json:"requests_in_system_mean"`
	// Saturated says that the node could not keep up with the arrivals: percentiles of TTFT
	// depend on how long the run is.
	Saturated bool `json:"saturated"`
	// DecodeBatch is the number of requests that decode in an iteration.
	DecodeBatch      Batch     `json:"decode_batch"`
	Iteration        Iteration `json:"iteration_ms"`
	Iterations       int64     `json:"iterations"`                  // summed over replicas
	RejectedRequests int64     `json:"rejected_requests"`           // they fit no empty memory, or are longer than the model's context
	TooLongRequests  int64     `json:"too_long_requests,omitempty"` // rejected requests longer than model.context, with serving.beyond_context = "refuse"
	RefusedRequests  int64     `json:"refused_requests"`            // too many waited when they came (serving.max_waiting)
	ExpiredRequests  int64     `json:"expired_requests"`            // they waited longer than serving.deadline
	Preemptions      int64     `json:"preemptions"`                 // times that a request lost its memory
}

// Attention is what decode steps attended to, each step of a request counting once.
type Attention struct {
	Policy string `json:"policy"`
	// Context is the tokens of a step's context, its own included, on average.
	Context float64 `json:"context_tokens_mean"`
	// Attended is how many tokens of its context a KV head attended to, on average over all layers.
	Attended float64 `json:"attended_tokens_mean"`
	// ByLayer is Attended of each layer; none for dense attention.
	ByLayer []float64 `json:"attended_tokens,omitempty"`
}

// Arrivals is how the requests of a run came: a kind of arrivals, and the mean rate. That is 0
// where all came at once; of a closed loop it is what came of it.
type Arrivals struct {
	Kind     string  `json:"kind"`
	RatePerS float64 `json:"rate_per_s"`
}

// Goodput is of the requests that attain the targets of latency.
type Goodput struct {
	Attainment   float64 `json:"attainment"` // their share of all requests, those not served included
	RequestsPerS float64 `json:"requests_per_s"`
	TokensPerS   float64 `json:"tokens_per_s"` // of output
}

// Target is a target of latency in milliseconds; 0: none, which JSON has as null.
type Target float64

// MarshalJSON writes null where there is no target.
func (t Target) MarshalJSON() ([]byte, error) {
	if t == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(float64(t))
}

// Trace describes the requests of a run; lengths in tokens.
type Trace struct {
	Name         string  `json:"name"`
	Requests     int     `json:"requests"`      // how many there are
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

// Latency summarises a distribution of times, in milliseconds; percentiles are
// of nearest rank. All are 0 where there is no sample.
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

// Batch is a number of requests that decode, over the replicas together.
type Batch struct {
	Mean float64 `json:"mean"` // over time: 0 in iterations that only prefill
	// StepMean is over the iterations that decode, each counting once, whatever time it takes.
	StepMean float64 `json:"step_mean"`
	Max      int     `json:"max"`
}

// Iteration is what the GPUs of a replica do in an iteration, mean over all of them, in
// milliseconds: Dense, Attention and Waiting sum to Mean.
type Iteration struct {
	Mean      float64 `json:"mean"`
	Dense     float64 `json:"dense"`     // all operations but attention, with their all-reduces
	Attention float64 `json:"attention"` // on the GPUs: of prompts, and of decode where no other device attends
	Waiting   float64 `json:"waiting"`   // for attention elsewhere, and for transfers
}

// Energy is what all GPUs of the node take from 0 to the last finish, in joules. That of
// memory and processing units beside them is not part of it.
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

// Waits is what GPUs and ranks of PIM wait for while they do not work, in shares of the simulated time, from 0 to 1, averaged
// over them: with Utilization of the GPUs, or of PIM, the shares add up to 1.
type Waits struct {
	GPU GPUWaits `json:"gpu"`
	PIM PIMWaits `json:"pim,omitzero"` // left out where there is none
}

// GPUWaits is what GPUs wait for.
type GPUWaits struct {
	PIM        float64 `json:"pim_share"`         // attention in DIMMs or HBM, as long as ranksets take on average
	Imbalance  float64 `json:"imbalance_share"`   // what the slowest rankset takes beyond the mean of all
	LinkDown   float64 `json:"link_down_share"`   // transfers from GPUs to memory
	LinkUp     float64 `json:"link_up_share"`     // transfers from memory to GPUs
	Channel    float64 `json:"channel_share"`     // memory channels and their controllers
	Host       float64 `json:"host_share"`        // the host's CPUs: their attention, or that they notice a device's end
	NoRequests float64 `json:"no_requests_share"` // no request is there
}

// PIMWaits is what ranks of PIM wait for.
type PIMWaits struct {
	GPU        float64 `json:"gpu_share"`            // work of GPUs
	LinkDown   float64 `json:"link_down_share"`      // transfers from GPUs to memory
	LinkUp     float64 `json:"link_up_share"`        // transfers from memory to GPUs
	Channel    float64 `json:"channel_share"`        // memory channels and their controllers
	Host       float64 `json:"host_share"`           // the host's CPUs
	Others     float64 `json:"other_ranksets_share"` // ranksets that still work, and transfers that interrupt
	NoRequests float64 `json:"no_requests_share"`    // no request is there
}

// KVBytes is the memory for the KV cache, over the whole node.
type KVBytes struct {
	Capacity int64 `json:"capacity"` // all of it
	Peak     int64 `json:"peak"`     // the most in use at once
}

// APIServer is what the process between users and engine did.
type APIServer struct {
	Utilization float64 `json:"utilization"`
}

// Cache is what a cache of prefixes did, over the whole node.
type Cache struct {
	// HitTokens are those of prompts that other requests had computed and that were found, without prompts that were computed again
	// after a preemption.
	HitTokens  int64   `json:"hit_tokens"`
	MissTokens int64   `json:"miss_tokens"` // all other tokens of prompts, without those that were computed again after a preemption
	HitRate    float64 `json:"hit_rate"`    // HitTokens over both
	// EvictedBlocks are those that made way for others.
	EvictedBlocks int64 `json:"evicted_blocks"`
	// Peak is the memory of all blocks, in use or not, at most.
	Peak int64 `json:"bytes_peak"`
	// Transferred is keys and values of prefixes that came to the GPUs.
	Transferred int64 `json:"prefix_transfer_bytes"`
	// Offloaded is those of blocks that made way on the GPUs and went to the host.
	Offloaded int64 `json:"offloaded_bytes"`
	// Spared is tokens of the contexts of decode steps that were not read again, since one reading served several requests.
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

// errNoSummary is of a summary that is nil.
var errNoSummary error = &input.Error{Key: "summary", Value: "nil", Expected: "one that a run returned"}

// WriteJSON writes a value as indented JSON and a line end, as all of l3sim's JSON for
// people and programs is.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
