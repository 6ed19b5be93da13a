package system

import (
	"cmp"
	"fmt"

	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

var overTimeColumns = []string{"time_s", "output_tokens_per_s", "requests_decoding", "requests_prefilling", "requests_waiting", "kv_bytes",
	"utilization_gpu", "utilization_pim", "utilization_pcie_down", "utilization_pcie_up", "utilization_channel", "power_w", "tbt_p50_ms", "tbt_p99_ms", "tbt_max_ms"}

// OverTime returns a table of a run with Options.Iterations, with a row for each of parts equal intervals. Tokens are per
// second. Means over an interval are of decoding, prefilling and waiting requests, bytes of keys and values, busy shares of
// resources, and watts of the node and its cooling. Percentiles are over the gaps between tokens that end in the interval;
// without any they are empty. Without parts or a node the table has no rows.
func (r *Result) OverTime(n *Node, parts int) *tables.Table {
	t := &tables.Table{Name: "run", Columns: overTimeColumns}
	if r == nil || n.empty() || parts < 1 {
		return t
	}
	bins := make([]bin, parts)
	width := r.end/units.Duration(parts) + 1
	for i := range r.Iterations {
		x := &r.Iterations[i]
		bins[(x.End-1)/width].tokens += int64(x.Decoding + x.FirstTokens)
		for k := x.Start / width; k <= (x.End-1)/width; k++ {
			part := min(x.End, (k+1)*width) - max(x.Start, k*width)
			bins[k].add(x, part.Seconds(), float64(part)/float64(x.End-x.Start))
		}
	}
	for _, g := range r.gaps {
		bins[(g.at-1)/width].gaps.Add(int64(g.gap), int64(g.requests))
	}
	idle := n.meter().Power(energy.Mid).Joules(&flow.Work{}, units.Second)
	devices := float64(n.Replicas() * n.hw.AttentionDevices())
	for k := range bins {
		t.Add(bins[k].row((units.Duration(k)*width + width/2).Seconds(), width.Seconds(), float64(n.Replicas()), devices, idle)...)
	}
	return t
}

// bin is an interval of OverTime.
type bin struct {
	tokens int64
	// Integrals over time, in seconds.
	decoding, prefilling, waiting, kv float64
	busy                              [flow.OfAttention]float64 // of resources, in the order of overTimeColumns
	iterating                         float64                   // of all replicas
	joules                            float64
	gaps                              results.Distribution
}

func (b *bin) add(x *results.IterationRecord, seconds, share float64) {
	b.iterating += seconds
	b.joules += float64(x.Joules * share)
	b.decoding += float64(float64(x.Decoding) * seconds)
	b.prefilling += float64(float64(x.InSystem-x.Decoding-x.Waiting) * seconds)
	b.waiting += float64(float64(x.Waiting) * seconds)
	b.kv += float64(float64(x.KV) * seconds)
	for i, worked := range [flow.OfAttention]units.Duration{flow.OfGPU: x.GPU, flow.OfPIM: x.PIM, flow.OfDown: x.PCIeDown, flow.OfUp: x.PCIeUp, flow.OfChannel: x.Channel} {
		b.busy[i] += float64(worked.Seconds() * share)
	}
}

// row returns the cells of an interval. A replica that waits draws idle watts.
func (b *bin) row(at, seconds, replicas, devices, idle float64) []any {
	cells := []any{at, float64(b.tokens) / seconds, b.decoding / seconds, b.prefilling / seconds, b.waiting / seconds, b.kv / seconds,
		b.busy[flow.OfGPU] / seconds / replicas, b.busy[flow.OfPIM] / seconds / devices, b.busy[flow.OfDown] / seconds / replicas, b.busy[flow.OfUp] / seconds / replicas, b.busy[flow.OfChannel] / seconds / replicas,
		(b.joules + float64(idle*(float64(replicas*seconds)-b.iterating))) / seconds}
	if b.gaps.Count() == 0 {
		return append(cells, nil, nil, nil)
	}
	l := b.gaps.Milliseconds()
	return append(cells, l.P50, l.P99, l.Max)
}

// Gaps returns a table of the times between tokens, with each percentile of the gaps that end in
// each quarter of the run. It needs Options.Iterations.
func (r *Result) Gaps() *tables.Table {
	r = cmp.Or(r, &Result{})
	var parts [4]results.Distribution
	width := r.end/units.Duration(len(parts)) + 1
	for _, g := range r.gaps {
		parts[(g.at-1)/width].Add(int64(g.gap), int64(g.requests))
	}
	t := &tables.Table{Name: "run", Columns: []string{"time", "tbt_ms"}}
	for k := range parts {
		name := fmt.Sprintf("%d to %d%% of the run", 25*k, 25*k+25)
		for percent := 1; percent <= 100 && parts[k].Count() > 0; percent++ {
			t.Add(name, float64(parts[k].Percentile(percent))/1e9)
		}
	}
	return t
}

// FirstTokens returns a table of the times to first token and of queueing, with a row for each
// served request.
func (r *Result) FirstTokens() *tables.Table {
	r = cmp.Or(r, &Result{})
	t := &tables.Table{Name: "run", Columns: []string{"ttft_ms", "queue_ms"}}
	for i := range r.Requests {
		if q := &r.Requests[i]; !q.Rejected() {
			t.Add(1e3*(q.FirstToken-q.Request.Arrival).Seconds(), 1e3*(q.Start-q.Request.Arrival).Seconds())
		}
	}
	return t
}

// Measured is the service that requests in the middle of a run get: the first requests meet an
// empty node, and the last ones find it emptying.
type Measured struct {
	Requests      int             `json:"-"` // served or turned away
	Attainment    float64         `json:"attainment"`
	GoodputTokens float64         `json:"goodput_tokens_per_s"` // output tokens of requests that attain the targets, per second of the time over which all arrive
	TTFT          results.Latency `json:"ttft_ms"`
	TBT           results.Latency `json:"tbt_ms"` // all gaps that end in that time, of any request
	TPOT          results.Latency `json:"tpot_ms"`
	E2E           results.Latency `json:"e2e_ms"`
	Saturated     bool            `json:"-"` // whether the whole run is
}

// Middle returns the time over which the requests from ≤ place < to of a trace arrive. The trace
// must be in order of arrival.
func Middle(trace *traces.Trace, from, to int) Window {
	return Window{From: trace.Requests[from].Arrival, To: trace.Requests[to-1].Arrival}
}

// Measured returns the measurements of the requests from ≤ place < to of the trace. Gaps are those
// of Options.Measure. Without such requests it is zero.
func (r *Result) Measured(from, to int, over Window) Measured {
	if from < 0 || from >= to || to > len(r.Requests) {
		return Measured{}
	}
	part := Result{Requests: r.Requests[from:to]}
	o := part.outcomes()
	m := Measured{
		Requests: to - from, Attainment: float64(o.attained) / float64(to-from), Saturated: r.saturated,
		TTFT: o.ttft.Milliseconds(), TPOT: o.tpot.Milliseconds(), E2E: o.e2e.Milliseconds(), TBT: r.measured.Milliseconds(),
	}
	if seconds := (over.To - over.From).Seconds(); seconds > 0 {
		// There is one gap between arrivals fewer than requests.
		m.GoodputTokens = float64(o.good) / (seconds * float64(to-from) / float64(to-from-1))
	}
	return m
}

// diary is the record of a replica's iterations, with Options.Iterations.
type diary struct {
	replica    int
	iterations []results.IterationRecord
	gaps       []keptGap
}

// keptGap is a gap that ends at a time for several requests.
type keptGap struct {
	at, gap  units.Duration
	requests int
}

// add records an iteration that has run.
func (d *diary) add(r *replica, start, end units.Duration, did *flow.Work) {
	x := results.IterationRecord{
		Replica: d.replica, Start: start, End: end, Decoding: r.iteration.batch.Decoding(), Waiting: r.assembly.Batcher.Waiting(), InSystem: r.assembly.Batcher.InSystem(),
		KV: units.Bytes(r.kvBytes(r.assembly.Batcher.UsedUnits())), Cached: units.Bytes(r.kvBytes(r.assembly.Batcher.Ledger.CachedUnits())),
		GPU: did.Time[flow.OfGPU], PIM: did.Time[flow.OfPIM], PCIeDown: did.Time[flow.OfDown], PCIeUp: did.Time[flow.OfUp], Channel: did.Time[flow.OfChannel],
		Joules: r.observers.power.Joules(did, end-start),
	}
	for i := range r.iteration.batch.Sub {
		s := &r.iteration.batch.Sub[i]
		x.PromptTokens += s.PrefillTokens()
		for i := range s.Prefill {
			if c := &s.Prefill[i]; c.Finished == c.Prefix {
				x.PrefixTokens += c.Prefix
			}
		}
		x.FirstTokens += s.Emitting()
	}
	x.FirstTokens -= x.Decoding
	d.iterations = append(d.iterations, x)
}
