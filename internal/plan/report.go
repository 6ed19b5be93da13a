package plan

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/system/power"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Schemas name the versions of the JSON of --json.
const (
	PlanSchema     = "l3sim/plan/2"
	CapacitySchema = "l3sim/capacity/3"
)

// Report is the output of the commands plan and capacity: a row per combination.
type Report struct {
	Schema   string        `json:"schema"`
	Trace    results.Trace `json:"trace"`
	Arrivals string        `json:"arrivals"`
	SLO      results.SLO   `json:"slo_ms"`
	Target   float64       `json:"attainment_target"`
	Measured int           `json:"measured_requests"`
	By       string        `json:"by,omitempty"` // the column that ranks
	Rows     []*Row        `json:"rows"`
	Tried    []Load        `json:"tried,omitempty"`  // all tried rates, row by row, if rows are not ranked
	Unable   []string      `json:"unable,omitempty"` // reasons of the combinations without a row
	Notes    []string      `json:"notes,omitempty"`  // how certain the answers are
}

// Row is a combination with the knobs that serve it best: at the requested rate if it holds, else at the highest rate that holds. If no
// rate holds, its rate is 0, and the rest is of the lowest rate that was tried.
type Row struct {
	Load
	Asked          *Asked      `json:"asked,omitempty"`
	Highest        float64     `json:"highest"`                // highest rate, or number of users, that holds; if a requested rate holds, as far as it is known
	Low            float64     `json:"highest_low,omitempty"`  // lower bound of the likely range of the highest rate, given few requests; 0 with High 0: there are enough
	High           float64     `json:"highest_high,omitempty"` // its upper bound
	Limit          []Failure   `json:"limit"`                  // why the next higher rate fails or, if none holds, the lowest
	Dips           bool        `json:"lower_rate_fails"`
	Alone          bool        `json:"alone_fails"` // if no rate holds: requests miss the targets even without waiting for one another
	TooLarge       int         `json:"rejected_requests"`
	TensorParallel int         `json:"tensor_parallel"`
	Replicas       int         `json:"replicas"`
	Ranksets       int         `json:"ranksets"`
	BeyondBoards   bool        `json:"beyond_boards"` // as in results.Summary
	BeyondSlot     bool        `json:"beyond_slot"`   // a DIMM draws more than its slot supplies
	MemoryGiB      float64     `json:"memory_gib"`    // of DIMMs
	Prices         string      `json:"prices"`
	Sets           []string    `json:"set"` // settings of knobs, beyond those given
	Binds          []Bind      `json:"binds"`
	Command        string      `json:"command,omitempty"` // reproduces the row
	VLLM           string      `json:"vllm,omitempty"`    // knobs of a GPU server as flags of vLLM
	Notes          []string    `json:"notes,omitempty"`
	Configured     units.Bytes `json:"memory_capacity"` // node.memory_capacity, which is the same for any number of GPUs
	// Called is the user's names of the row's system, model, GPU and policy, in the order of nameKeys.
	Called []string        `json:"called"`
	Config *configs.Config `json:"-"` // with the knobs
	Tried  []Load          `json:"-"` // by rate
	next   *Load           // the next higher rate that was tried, which fails; nil for none
}

// Asked is the result for the requested rate.
type Asked struct {
	RatePerS   float64   `json:"rate_per_s"`
	Users      int       `json:"users,omitempty"`
	Met        bool      `json:"met"`
	Attainment float64   `json:"attainment"`
	Fails      []Failure `json:"fails,omitempty"`
	Nodes      int       `json:"nodes"` // number of nodes like this one that hold the requested rate together; 0 if no rate holds
}

// nameKeys are the keys of names, for which flags may give lists.
var nameKeys = []string{"run.system", "run.model", "gpu.preset", "policy.name"}

// names returns the names that may vary between rows, in the order of nameKeys.
func (l *Load) names() []*string { return []*string{&l.System, &l.Model, &l.GPU, &l.Policy} }

// describe adds a description of the row's node, and notes on its runs.
func (r *Row) describe(j *Judge) {
	c := j.cfg
	r.Config, r.TensorParallel, r.Replicas, r.Ranksets = c, c.Model.TensorParallel, c.Replicas(), c.Node.Ranksets
	r.BeyondBoards, r.BeyondSlot = system.BeyondBoards(c), r.Summary.Limits().Slot
	r.MemoryGiB, r.Configured, r.Prices = float64(power.Memory(c))/(1<<30), c.Node.MemoryCapacity, c.Prices.Name
	r.Notes = system.Notes(c)
	for _, text := range []string{system.ContextNote(c, j.trace), r.short(len(j.trace.Requests), c.SLO.Attainment), wholeNote(c, j.trace)} {
		if text != "" {
			r.Notes = append(r.Notes, text)
		}
	}
	if kinds.Of(c).Planning.VLLM {
		if r.VLLM = vllm(c); c.Model.Experts > 0 && r.Replicas > 1 {
			r.Notes = append(r.Notes, fmt.Sprintf("each of the %d replicas of a mixture is a server of vLLM by itself", r.Replicas))
		}
	}
}

// holds says that the row holds the requested rate, or any rate if none is requested.
func (r *Row) holds() bool {
	if r.Asked != nil {
		return r.Asked.Met
	}
	return r.Met
}

// vllm returns the knobs of a GPU server as flags of vLLM. With data-parallel attention, limits there apply to each GPU. Replicas of a mixture are
// separate servers, as vLLM's data parallelism divides experts over all.
func vllm(c *configs.Config) string {
	m := &c.Model
	tensor, data, each := m.TensorParallel, 1, 1
	switch {
	case m.DataParallel():
		tensor, data, each = 1, tensor, tensor
	case m.Experts == 0:
		data = c.Replicas()
	}
	text := fmt.Sprintf("--tensor-parallel-size %d --max-num-batched-tokens %d", tensor, batchTokens(c))
	if n := c.Batching.MaxNumSeqs; n > 0 {
		text += fmt.Sprintf(" --max-num-seqs %d", (n+each-1)/each)
	}
	text += fmt.Sprintf(" --gpu-memory-utilization %v", c.GPU.MemoryShare)
	format := "auto"
	if strings.HasPrefix(string(m.KVFormat), "fp8") {
		format = "fp8"
	}
	text += " --kv-cache-dtype " + format
	if data > 1 {
		text += fmt.Sprintf(" --data-parallel-size %d", data)
	}
	if m.ExpertParallel && m.TensorParallel > 1 {
		text += " --enable-expert-parallel"
	}
	if most := wholePrompts(c); most > 0 {
		text += " --no-enable-chunked-prefill"
		if m.Context == 0 || m.Context > most {
			text += fmt.Sprintf(" --max-model-len %d", most) // vLLM starts with no longer one
		}
	}
	if c.Cache.Prefix {
		return text + " --enable-prefix-caching"
	}
	return text + " --no-enable-prefix-caching" // it is on by default in vLLM
}

// wholePrompts returns the tokens of an iteration of one server of vLLM if its prompts run whole, 0 if they run in chunks.
func wholePrompts(c *configs.Config) int {
	if !kinds.Of(c).Planning.VLLM || configs.Section[kinds.GPUOnly](c).Policy != kinds.PrefillFirst {
		return 0
	}
	return batchTokens(c)
}

// batchTokens returns the tokens of an iteration of one server of vLLM: with data-parallel attention of one GPU.
func batchTokens(c *configs.Config) int {
	each := 1
	if c.Model.DataParallel() {
		each = c.Model.TensorParallel
	}
	return (c.Batching.MaxBatchTokens + each - 1) / each
}

// wholeNote says which share of the requests vLLM would refuse because their prompts run whole; "" for none.
func wholeNote(c *configs.Config, trace *traces.Trace) string {
	most, longer := wholePrompts(c), 0
	for i := range trace.Requests {
		if q := &trace.Requests[i]; most > 0 && q.Input+q.Output > most {
			longer++
		}
	}
	if longer == 0 {
		return ""
	}
	return fmt.Sprintf("vLLM without chunked prefill refuses requests of more than max_num_batched_tokens = %d tokens, %.3g%% of these, which l3sim serves: gpu_only.policy = %q serves them in vLLM, too",
		most, 100*float64(longer)/float64(len(trace.Requests)), kinds.ChunkedPrefill)
}

// short returns a title without the keys that differ from a preset: "h200-sxm (changed)", or "b200" for "b200 (h200-sxm, changed:
// sms)".
func short(title string) string {
	name, _, _ := strings.Cut(title, " (")
	name, _, changed := strings.Cut(name, ", changed: ")
	if changed {
		name += " (changed)"
	}
	return name
}

// Add adds a row, from runs of a trace. names is the user's names of its system, model, GPU and policy, by key. The first row sets what all
// have in common.
func (r *Report) Add(row *Row, names map[string]string, trace *traces.Trace) {
	for k, name := range row.names() {
		row.Called = append(row.Called, cmp.Or(names[nameKeys[k]], short(*name)))
	}
	cfg := row.Config
	r.Trace, r.Arrivals, r.Target, r.SLO = results.DescribeTrace(trace), cfg.Arrivals.Kind, cfg.SLO.Attainment, results.NewSLO(&cfg.SLO)
	n, sampled := sample(trace, row.Users)
	r.Measured, r.Rows = min(cmp.Or(r.Measured, n), n), append(r.Rows, row)
	if text := r.sure(min(r.Measured, sampled)); text != "" {
		r.Notes = []string{text}
	}
}

// short says that runs of n requests were too short to trust that the queue grew at the next rate; "" if they were not, or if other targets were
// missed.
func (r *Row) short(n int, share float64) string {
	l := r.next
	if l == nil || !l.Saturated || l.Attainment < share {
		return ""
	}
	needed := residences * l.E2E.P99 / 1e3 * l.RatePerS
	if needed <= float64(n) {
		return ""
	}
	return fmt.Sprintf("%s: the next rate, %.4g requests/s, attains the targets and fails only as the number of requests in the system grew. "+
		"Requests stay up to %.0f s, so that a run this short may only show the node filling: --requests %d tells, and the rate may be higher",
		l.System, l.RatePerS, l.E2E.P99/1e3, roundUp(int(math.Ceil(needed))))
}

// roundUp rounds a number of requests up to two digits.
func roundUp(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return (n + unit - 1) / unit * unit
}

// Columns are the numbers of a row by which rows can be ranked.
var Columns = []string{
	"usd_per_million_output_tokens", "usd_per_million_output_tokens_low", "usd_per_million_output_tokens_high", "rate_per_s", "gpus", "site_power_mean_w",
	"attainment", "goodput_tokens_per_s", "ttft_p50_ms", "ttft_p99_ms", "tbt_p50_ms", "tbt_p99_ms", "tpot_p99_ms", "e2e_p99_ms",
}

// number returns a number of a row by its column. In percentiles of a latency the unit precedes the percentile: ttft_ms.p99 is
// ttft_p99_ms.
func (r *Row) number(column string) float64 {
	for _, key := range schema.Walk(reflect.TypeFor[Row](), "json") {
		name := key.Name
		if of, percentile, is := strings.Cut(name, "_ms."); is {
			name = of + "_" + percentile + "_ms"
		}
		if name == column {
			return schema.Number(key.Get(r))
		}
	}
	return math.NaN()
}

// Rank puts the best row by a column first. Rows that hold the requested rate come before those that do not; rows with more DIMMs than
// server boards have slots come last.
func (r *Report) Rank(by string) error {
	if !slices.Contains(Columns, by) {
		return input.UnknownName("--by", by, Columns)
	}
	r.By = by
	slices.SortStableFunc(r.Rows, func(a, b *Row) int {
		better := cmp.Compare(a.number(by), b.number(by))
		if tables.Describe(by).Better == tables.Higher {
			better = -better
		}
		return cmp.Or(rankOf(a)-rankOf(b), better)
	})
	return nil
}

// rankOf returns 0 for a row that holds the request, 1 for one that holds less, 2 for one that holds nothing, and 3 for one with more
// DIMMs than server boards have slots.
func rankOf(r *Row) int {
	switch {
	case r.BeyondBoards:
		return 3
	case r.holds():
		return 0
	case r.Highest > 0:
		return 1
	}
	return 2
}

// Fewest keeps, of rows that differ in the number of GPUs alone, the one with the fewest that holds the rate.
func (r *Report) Fewest() {
	but := func(r *Row) [7]any {
		return [7]any{r.System, r.Model, r.GPU, r.Policy, r.Ranksets, r.Configured, r.Prices}
	}
	all := slices.Clone(r.Rows)
	r.Rows = slices.DeleteFunc(r.Rows, func(x *Row) bool {
		return slices.ContainsFunc(all, func(y *Row) bool { return y.holds() && y.GPUs < x.GPUs && but(x) == but(y) })
	})
}

// Holds says whether a row holds the requested rate, or any rate if none is requested.
func (r *Report) Holds() bool {
	return slices.ContainsFunc(r.Rows, (*Row).holds)
}

// List lists the rates that were tried for all rows. If two choices of a flag share a name, such as two files that change the same keys of
// one GPU, the user's names of them come first.
func (r *Report) List() {
	for k := range nameKeys {
		before := list.Map(r.Rows, func(x *Row) string { return *x.names()[k] })
		for i, x := range r.Rows {
			name := x.names()[k]
			for other, y := range r.Rows {
				if before[other] == before[i] && y.Called[k] != x.Called[k] {
					*name = x.Called[k] + ": " + before[i]
				}
			}
			for l := range x.Tried {
				*x.Tried[l].names()[k] = *name
			}
		}
	}
	for _, x := range r.Rows {
		r.Tried = append(r.Tried, x.Tried...)
	}
}

// Targets returns targets, which a share of the requests must attain, as text.
func Targets(slo *results.SLO, share float64) string {
	var all []string
	if each := slo.Each(); len(each) > 0 {
		all = append(all, fmt.Sprintf("%g%% of them within %s", 100*share, strings.Join(each, " ")))
	}
	return strings.Join(append(all, slo.Tails()...), ", ")
}

// WriteText writes the rows, their notes, and the commands that reproduce them.
func (r *Report) WriteText(out io.Writer) error {
	if known := r.known(); len(known) > 0 {
		fmt.Fprintf(out, "%s\n\n", strings.Join(known, "\n"))
	}
	if len(r.Rows) > 0 {
		if err := r.writeTable(out); err != nil {
			return err
		}
	}
	write := func(block []string) {
		if len(block) > 0 {
			fmt.Fprintf(out, "\n%s\n", strings.Join(block, "\n"))
		}
	}
	var commands []string
	for i, x := range r.Rows {
		number := strconv.Itoa(i+1) + ": "
		if text := x.explain(&r.SLO); text != "" {
			write([]string{number + text})
		}
		if x.Command != "" {
			commands = append(commands, number+x.Command)
		}
		if x.Command != "" && x.VLLM != "" && x.Highest > 0 {
			commands = append(commands, "   vllm serve ... "+x.VLLM)
		}
	}
	write(commands)
	write(r.allNotes())
	write(r.Unable)
	return nil
}

// known says for each row how well the kernels behind its GPUs' time are known, once for successive rows with the same text.
func (r *Report) known() (lines []string) {
	last := ""
	for i, x := range r.Rows {
		if x.Summary == nil {
			continue
		}
		if text := x.Summary.GPUTime.Text(); text != "" && text != last {
			number := ""
			if len(r.Rows) > 1 {
				number = fmt.Sprintf("%d: ", i+1)
			}
			lines, last = append(lines, number+"GPU time: "+text), text
		}
	}
	return lines
}

// allNotes returns the notes of the rows and of the report, without repeats.
func (r *Report) allNotes() (notes []string) {
	add := func(texts ...string) {
		for _, text := range texts {
			if text = "note: " + text; !slices.Contains(notes, text) {
				notes = append(notes, text)
			}
		}
	}
	for i, x := range r.Rows {
		for k, name := range x.names() {
			if x.Called[k] != *name {
				add(x.Called[k] + " is " + strings.TrimPrefix(*name, x.Called[k]+": "))
			}
		}
		add(x.Notes...)
		if x.Command == "" && len(x.Sets) > 0 {
			add(fmt.Sprintf("%s: --set %s", x.System, strings.Join(x.Sets, " --set ")))
		}
		if x.Dips {
			add(fmt.Sprintf("row %d: a lower rate fails", i+1))
		}
	}
	add(r.Notes...)
	return notes
}
