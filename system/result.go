package system

import (
	"cmp"
	"time"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/power"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Result is the result of a node's run.
type Result struct {
	Requests   []results.Request // in the order of the trace
	Wall       time.Duration     // set by the caller
	Tasks      int64             // operations of the run, those of skipped layers included
	Recordings []*Recording      // one per replica, with Options.Timeline
	// Iterations is the iterations of all replicas, replica by replica, with Options.Iterations.
	Iterations []results.IterationRecord

	trace *traces.Trace
	end   units.Duration
	betweenTokens
	scheduling
	used
}

// Batch returns the requests that decode in an iteration.
func (r *Result) Batch() results.Batch {
	r = cmp.Or(r, &Result{})
	return r.batch
}

// betweenTokens is the times between tokens of a run.
type betweenTokens struct {
	tbt       *results.Distribution // all gaps
	gaps      []keptGap             // with Options.Iterations
	measured  results.Distribution  // gaps of Options.Measure
	tbtDecode results.Latency
	stall     results.Stalls
}

// scheduling counts the outcomes of a run's requests, and its iterations.
type scheduling struct {
	iterations, tokens, rejected int64
	preemptions                  int64
	wholePrompts                 int64 // of all replicas, see batching.State.WholePrompts
	longestWhole                 int
	spareTokens                  int64       // of all replicas, see batching.State.SpareTokens
	inSystem                     units.Total // requests times picoseconds
	saturated                    bool
	batch                        results.Batch
	iteration                    results.Iteration
	attention                    results.Attention
}

// used is the use of a node's hardware by a run.
type used struct {
	busy                     results.Utilization
	waits                    results.Waits
	fragmentation, imbalance float64
	kv                       results.KVBytes
	cache                    results.Cache
	apiServer                results.APIServer
	extrapolated             [gpu.Kinds]float64 // shares of the GPUs' time
	energy                   results.Energy
	report                   results.EnergyReport
}

func (n *Node) result(trace *traces.Trace, replicas []*replica) *Result {
	r := &Result{trace: trace, Requests: make([]results.Request, len(trace.Requests))}
	var total flow.Busy
	var iterating units.Total
	decode, stalls := &replicas[0].gaps.decode, &replicas[0].gaps.stalls // to which all others are added
	r.saturated = saturated(replicas)
	for i, rep := range replicas {
		for j := range rep.out.requests {
			r.Requests[rep.out.places[j]] = rep.out.requests[j]
			if rep.out.requests[j].Rejected() {
				r.rejected++
			}
		}
		r.inSystem.AddTotal(rep.tallied.population.area)
		if i > 0 {
			decode.AddAll(&rep.gaps.decode)
			stalls.AddAll(&rep.gaps.stalls)
		}
		r.measured.AddAll(&rep.gaps.measured)
		r.iterations += rep.out.iterations
		r.tokens += rep.out.tokens
		iterating.Add(rep.out.iterating)
		r.end = max(r.end, rep.out.end)
		r.preemptions += rep.assembly.Batcher.Preemptions
		r.wholePrompts += rep.assembly.Batcher.WholePrompts
		r.longestWhole = max(r.longestWhole, rep.assembly.Batcher.LongestWhole)
		r.spareTokens += rep.assembly.Batcher.SpareTokens
		r.fragmentation += rep.out.fragmentation
		total.Join(&rep.tallied.busy)
		r.Tasks += rep.assembly.Engine.Core().Work.Tasks
		if rep.observers.diary != nil {
			r.Iterations = append(r.Iterations, rep.observers.diary.iterations...)
			r.gaps = append(r.gaps, rep.observers.diary.gaps...)
		}
		if rep.observers.recording != nil {
			r.Recordings = append(r.Recordings, rep.observers.recording)
		}
	}
	r.tbtDecode = decode.Milliseconds()
	stall := stalls.Milliseconds()
	r.stall = results.Stalls{Count: stalls.Count(), Mean: stall.Mean, P99: stall.P99, Max: stall.Max}
	decode.AddAll(stalls)
	r.tbt = decode
	if seconds := busySeconds(replicas); seconds > 0 {
		r.fragmentation /= seconds
	}
	r.busy = n.utilization(&total, r.end)
	r.waits = n.waits(replicas, &total, r.end)
	r.energy = n.meter().GPUs(&total, r.end, r.tokens)
	r.report = n.meter().Report(&total, r.end)
	r.extrapolated = extrapolated(replicas, total.Time[flow.OfGPU])
	r.iteration = meanIteration(r.iterations, iterating, &total)
	r.imbalance = n.meanImbalance(replicas)
	r.batch = results.Batch{Mean: meanBatch(replicas, r.end), StepMean: stepMean(replicas), Max: int(maxOfSum(replicas, func(r *replica) *steps { return &r.out.batch }))}
	r.attention = n.attention(replicas)
	r.kv = n.kvBytes(maxOfSum(replicas, func(r *replica) *steps { return &r.tallied.kvUnits }))
	r.cache = n.cacheOf(replicas)
	if api := replicas[0].api; api != nil {
		r.inSystem.AddTotal(api.inside)
		r.apiServer.Utilization = float64(api.busy) / float64(max(r.end, api.free, 1))
	}
	return r
}

// stepMean returns the mean number of requests in a decode step, summed over the replicas.
func stepMean(replicas []*replica) float64 {
	sum := 0.0
	for _, r := range replicas {
		if r.out.steps > 0 {
			sum += float64(r.out.decoded) / float64(r.out.steps)
		}
	}
	return sum
}

// busySeconds returns the running time of the replicas, summed.
func busySeconds(replicas []*replica) float64 {
	sum := 0.0
	for _, r := range replicas {
		sum += r.out.end.Seconds()
	}
	return sum
}

// kvBytes returns the KV memory of the node; peak is in allocation units, summed over the replicas.
func (n *Node) kvBytes(peak int64) results.KVBytes {
	m := n.memory
	return results.KVBytes{Capacity: int64(m.Unit) * m.Capacity * int64(n.Replicas()), Peak: int64(m.Unit) * peak}
}

// utilization returns the busy shares of end, averaged over replicas and, for PIM, ranksets.
func (n *Node) utilization(w *flow.Busy, end units.Duration) results.Utilization {
	var u [flow.Booked]float64
	for i := range u {
		of := n.Replicas()
		if i == flow.OfPIM {
			of *= n.hw.AttentionDevices()
		}
		u[i] = w.Time[i].Picoseconds() / (float64(max(end, 1)) * float64(of))
	}
	return results.Utilization{GPU: u[flow.OfGPU], PIM: u[flow.OfPIM], PCIeDown: u[flow.OfDown], PCIeUp: u[flow.OfUp], Channel: u[flow.OfChannel]}
}

// waits returns the waits of GPUs and ranksets by cause, as shares of end.
func (n *Node) waits(replicas []*replica, w *flow.Busy, end units.Duration) (s results.Waits) {
	ranksets := n.hw.AttentionDevices()
	all := float64(max(end, 1)) * float64(len(replicas))
	share := func(of int, reason uint8) float64 { return w.Time[of+int(reason)].Picoseconds() / all }
	var idle, others units.Total
	for _, r := range replicas {
		idle.Add(end - r.out.iterating)
		others.AddTotal(r.tallied.busy.Others(r.out.iterating, ranksets))
	}
	none, uneven := idle.Picoseconds()/all, share(flow.OfUneven, 0)
	s.GPU = results.GPUWaits{
		PIM: share(flow.OfGPUWaits, flow.ForPIM) - uneven, Imbalance: uneven, LinkDown: share(flow.OfGPUWaits, flow.ForDown), LinkUp: share(flow.OfGPUWaits, flow.ForUp),
		Channel: share(flow.OfGPUWaits, flow.ForChannel), Host: share(flow.OfGPUWaits, flow.ForHost), NoRequests: none,
	}
	if n.Kernels != nil || n.Stack != nil || w.Time[flow.OfPIM] != (units.Total{}) {
		s.PIM = results.PIMWaits{
			GPU: share(flow.OfPIMWaits, flow.ForGPU), LinkDown: share(flow.OfPIMWaits, flow.ForDown), LinkUp: share(flow.OfPIMWaits, flow.ForUp),
			Channel: share(flow.OfPIMWaits, flow.ForChannel), Host: share(flow.OfPIMWaits, flow.ForHost), Others: others.Picoseconds() / (all * float64(ranksets)), NoRequests: none,
		}
	}
	return s
}

// extrapolated returns the shares of the GPUs' time in kernels beyond the range to which their parameters were
// fitted.
func extrapolated(replicas []*replica, gpuTime units.Total) (share [gpu.Kinds]float64) {
	for k := range share {
		var sum units.Total
		for _, r := range replicas {
			sum.AddTotal(r.assembly.Engine.Core().Extrapolated[k])
		}
		if sum != (units.Total{}) {
			share[k] = sum.Picoseconds() / gpuTime.Picoseconds()
		}
	}
	return share
}

// meanIteration splits the mean time of an iteration by the work of its GPUs.
func meanIteration(iterations int64, time units.Total, w *flow.Busy) results.Iteration {
	if iterations == 0 {
		return results.Iteration{}
	}
	each := func(picoseconds float64) float64 { return picoseconds / 1e9 / float64(iterations) }
	all, gpu, attention := time.Picoseconds(), w.Time[flow.OfGPU].Picoseconds(), w.Time[flow.OfAttention].Picoseconds()
	return results.Iteration{Mean: each(all), Dense: each(gpu - attention), Attention: each(attention), Waiting: each(all - gpu)}
}

// meanBatch returns the mean number of decoding requests over [0, end).
func meanBatch(replicas []*replica, end units.Duration) float64 {
	if end == 0 {
		return 0
	}
	sum := 0.0
	for _, r := range replicas {
		f := &r.out.batch
		for i, v := range f.value {
			until := end
			if i+1 < len(f.at) {
				until = f.at[i+1]
			}
			sum += float64(float64(v) * (float64(until-f.at[i]) / float64(end)))
		}
	}
	return sum
}

// maxOfSum returns the maximum over time of a function summed over the replicas. Changes at the same time count
// together.
func maxOfSum(replicas []*replica, of func(*replica) *steps) int64 {
	var sum, top int64
	next := make([]int, len(replicas))
	for {
		now := never
		for i, r := range replicas {
			if f := of(r); next[i] < len(f.at) {
				now = min(now, f.at[next[i]])
			}
		}
		if now == never {
			return top
		}
		for i, r := range replicas {
			if f, k := of(r), next[i]; k < len(f.at) && f.at[k] == now {
				sum += f.value[k]
				if k > 0 {
					sum -= f.value[k-1]
				}
				next[i]++
			}
		}
		top = max(top, sum)
	}
}

// Summary returns the result in the schema of package results.
func (r *Result) Summary(cfg *configs.Config) (*results.Summary, error) {
	if r == nil || r.trace == nil {
		return nil, &input.Error{Key: "result", Expected: "one that a run of a node returned"}
	}
	hash, err := cfg.SHA256()
	if err != nil {
		return nil, err
	}
	o := r.outcomes()
	s := &results.Summary{
		About: results.About{System: cfg.Run.System, Variant: cfg.Run.Variant, Model: cfg.ModelTitle(), GPU: cfg.GPUTitle(), Trace: results.DescribeTrace(r.trace),
			Arrivals: r.arrivals(), Seed: cfg.Run.Seed, ConfigSHA256: hash},
		Throughput: results.Throughput{SimulatedS: r.end.Seconds()},
		Latencies: results.Latencies{TBT: r.tbt.Milliseconds(), TBTDecode: r.tbtDecode, Stall: r.stall, TTFT: o.ttft.Milliseconds(), E2E: o.e2e.Milliseconds(),
			Queue: o.queue.Milliseconds(), TPOT: o.tpot.Milliseconds()},
		SLO: results.NewSLO(&cfg.SLO),
		Service: results.Service{Saturated: r.saturated, DecodeBatch: r.batch, Iteration: r.iteration, Iterations: r.iterations, Preemptions: r.preemptions,
			RejectedRequests: o.count[results.TooLarge] + o.count[results.TooLong], TooLongRequests: o.count[results.TooLong],
			RefusedRequests: o.count[results.Refused], ExpiredRequests: o.count[results.Expired]},
		Utilization: r.busy, Waits: r.waits, Energy: r.energy, EnergyReport: r.report, RanksetImbalance: r.imbalance, KVBytes: r.kv, KVFragmentation: r.fragmentation, Attention: r.attention, Cache: r.cache, APIServer: r.apiServer, WallS: r.Wall.Seconds(),
	}
	if seconds := r.end.Seconds(); seconds > 0 {
		s.OutputTokensPerS = float64(r.tokens) / seconds
		s.TotalTokensPerS = float64(r.tokens+o.prompts) / seconds
		s.RequestsPerS = float64(o.count[results.Served]) / seconds
		s.Goodput.RequestsPerS, s.Goodput.TokensPerS = float64(o.attained)/seconds, float64(o.good)/seconds
		s.RequestsInSystem = r.inSystem.Picoseconds() / float64(r.end)
	}
	if median := s.TPOT.P50; median > 0 {
		s.TokensPerSPerUser = 1000 / median
	}
	if joules := r.report.Total; joules > 0 {
		s.EnergyReport.OutputTokensPerJoule = float64(r.tokens) / joules
		s.EnergyReport.TotalTokensPerJoule = float64(r.tokens+o.prompts) / joules
	}
	s.Cost = power.Cost(cfg, &s.EnergyReport, s.OutputTokensPerS)
	s.DIMMsPerChannel, s.BeyondBoards = DIMMsPerChannel(cfg), BeyondBoards(cfg)
	s.GPUTime = r.known(cfg)
	said := r.remarks(cfg, s)
	s.Doubts, s.Notes = said.doubts, said.notes
	if n := len(r.Requests); n > 0 {
		s.Goodput.Attainment = float64(o.attained) / float64(n)
	}
	return s, nil
}

// outcomes sums up the outcomes of a run's requests.
type outcomes struct {
	queue, ttft, tpot, e2e results.Distribution
	count                  [results.TooLong + 1]int64
	prompts                int64 // prompt tokens of served requests
	attained, good         int64 // requests that met the targets, and their output tokens
}

// outcomes sums up latencies and tokens over the requests that were not rejected.
func (r *Result) outcomes() *outcomes {
	o := &outcomes{}
	for i := range r.Requests {
		q := &r.Requests[i]
		o.count[q.Outcome]++
		if q.Rejected() {
			continue
		}
		o.queue.Add(int64(q.Start-q.Request.Arrival), 1)
		o.ttft.Add(int64(q.FirstToken-q.Request.Arrival), 1)
		o.e2e.Add(int64(q.Finish-q.Request.Arrival), 1)
		if mean, ok := q.MeanTBT(); ok {
			o.tpot.Add(int64(mean), 1)
		}
		o.prompts += int64(q.Request.Input)
		if q.Attained {
			o.attained++
			o.good += int64(q.Request.Output)
		}
	}
	return o
}

// arrivals describes how requests arrived; for a closed loop, it includes the rate that resulted.
func (r *Result) arrivals() results.Arrivals {
	a := r.trace.Described()
	if a.Closed != nil || r.trace.Waits() {
		last := units.Duration(0)
		for i := range r.Requests {
			last = max(last, r.Requests[i].Request.Arrival)
		}
		if last > 0 {
			a.RatePerS = float64(len(r.Requests)-1) / last.Seconds()
		}
	}
	return results.Arrivals{Kind: a.Kind, RatePerS: a.RatePerS}
}
