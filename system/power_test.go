package system

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

func close9(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// TestEnergyCloses: on random nodes components sum to the total, which is within its band and equals mean power
// times time. The GPUs' component equals the GPUs' own energy. Iterations and the time between them sum to the
// total, and so does power over time. Systems that read the same keys and values from DRAM take the same energy
// for it.
func TestEnergyCloses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		for i := range d.trace.Requests { // with time in which nothing runs
			d.trace.Requests[i].Arrival = units.Duration(i*rapid.IntRange(0, 3).Draw(t, "arrival")) * 100 * units.Millisecond
		}
		slices.SortStableFunc(d.trace.Requests, func(a, b traces.Request) int { return int(a.Arrival - b.Arrival) })
		for i := range d.trace.Requests {
			d.trace.Requests[i].ID = i
		}
		for _, system := range []string{"gpu-only", "hbm-pim", "rank-pim", "cpu-offload", "gpu+cpu", "l3"} {
			cfg := d.load(t, system)
			n := mustNode(t, cfg)
			r, err := n.Run(t.Context(), d.trace, Options{Iterations: true})
			if errors.As(err, new(*RejectedError)) {
				t.Skip("nothing is served")
			}
			if err != nil {
				t.Fatal(err)
			}
			e, sum := &r.report, 0.0
			for _, joules := range e.Components.Parts() {
				sum += joules
				if joules < 0 {
					t.Fatalf("%s: %+v", system, e.Components)
				}
			}
			seconds, replicas := r.end.Seconds(), float64(n.Replicas())
			if !close9(sum, e.Total) || e.Low > e.Total || e.Total > e.High || !close9(e.Watts*seconds, e.Total) || !close9(e.Components.GPU, r.energy.GPU) {
				t.Fatalf("%s: components are %v J: %+v, the GPUs %v J", system, sum, e, r.energy.GPU)
			}
			idle, apart := n.meter().Power(energy.Mid).Joules(&flow.Work{}, units.Second), replicas*seconds
			inTime := 0.0
			for i := range r.Iterations {
				inTime += r.Iterations[i].Joules
				apart -= (r.Iterations[i].End - r.Iterations[i].Start).Seconds()
			}
			if all := inTime + apart*idle; !close9(all, e.Total) {
				t.Fatalf("%s: iterations and idle time take %v J, all %v J", system, all, e.Total)
			}
			over, integral := r.OverTime(n, 7), 0.0
			column := slices.Index(over.Columns, "power_w")
			for row := range over.Rows {
				w, _ := over.Number(row, column)
				integral += w * (seconds/7 + 1e-12)
			}
			if math.Abs(integral-e.Total) > 1e-6*e.Total {
				t.Fatalf("%s: power over time is %v J, all %v J", system, integral, e.Total)
			}
		}
	})
}

// TestEnergyOfLongRuns: repeating the same load when the first ends takes the same energy again, in each component.
func TestEnergyOfLongRuns(t *testing.T) {
	for _, system := range everyName() {
		once := equalLengths(8, 700, 30)
		sets := []string{"run.system=" + system, "model.layers=4", "node.ranksets=1", "rank_pim.placement=balanced"}
		_, first := energyOf(t, once, sets...)
		twice := slices.Clone(once)
		for i := range once {
			r := once[i]
			r.ID, r.Arrival = len(twice), first.end
			twice = append(twice, r)
		}
		_, second := energyOf(t, twice, sets...)
		if second.end != 2*first.end {
			t.Fatalf("%s: %v, then %v", system, first.end, second.end)
		}
		a, b := first.report.Components.Parts(), second.report.Components.Parts()
		for i := range a {
			if !close9(2*a[i], b[i]) {
				t.Errorf("%s: component %d takes %v J, twice %v J", system, i, a[i], b[i])
			}
		}
	}
}

// TestIdleIsIdle: time without requests takes the same energy per second, in all systems, by hand: eight chips a rank.
func TestIdleIsIdle(t *testing.T) {
	const later = 7 * units.Second
	for _, system := range everyName() {
		requests := unevenLengths(6)
		_, soon := energyOf(t, requests, "run.system="+system, "energy.unused_memory=0B")
		for i := range requests {
			requests[i].Arrival += later
		}
		n, late := energyOf(t, requests, "run.system="+system, "energy.unused_memory=0B")
		const ranks, dimms, rank = 64, 32, 8 * 1.2 * 1e-3
		want := results.EnergyComponents{
			GPU: 8 * n.cfg.GPU.Power.ActiveIdle, DRAMClosed: ranks * dies * rank * 37, DRAMRefresh: ranks * dies * rank * (250 - 37) * 560 / 12480., DRAMVPP: ranks * dies * 8 * 7.5e-3,
			DIMMBuffers: dimms * 1.5, HostCPUs: 2 * 75, Board: 1000,
		}
		want.Cooling = 0.25 * (want.GPU + want.DRAMVPP + want.DRAMClosed + want.DRAMRefresh + want.DIMMBuffers + want.HostCPUs + want.Board)
		a, b, w := soon.report.Components.Parts(), late.report.Components.Parts(), want.Parts()
		for i := range a {
			if watts := (b[i] - a[i]) / later.Seconds(); math.Abs(watts-w[i]) > 1e-6*(w[i]+1) {
				t.Errorf("%s: component %d draws %v W idle, want %v W", system, i, watts, w[i])
			}
		}
	}
}

// TestEnergyOfAttentionByHand: the energy of requests of whole rows on the DIMMs, from the commands for each token.
func TestEnergyOfAttentionByHand(t *testing.T) {
	const requests, input, output = 4, 2048, 8
	n, r := energyOf(t, equalLengths(requests, input, output), "run.system=l3", "model.layers=3")
	m, tCK := &n.cfg.Model, 625e-12
	heads := float64(requests * (output - 1) * 3 * m.KVHeads)
	tokens, unitReads := 0.0, 0.0
	for step := 1; step < output; step++ {
		tokens += float64(requests*3*m.KVHeads) * float64(input+step)
		// 4 MACAs of 16 banks for every 16 tokens (rounded up) of scores, and 1 for the values of every
		// 4.
		unitReads += float64(requests*3*m.KVHeads) * 16 * float64((input+step+15)/16*4+(input+step+3)/4)
	}
	const milliampere = 8 * 1.2 * 1e-3 // of eight chips
	read := milliampere * (168 - 52) * 4 * tCK
	c := &r.report.Components
	within := func(what string, got, want, share float64) {
		if math.Abs(got/want-1) > share {
			t.Errorf("%s takes %v J, by hand %v J", what, got, want)
		}
	}
	within("what units read", c.PIMRead, unitReads*read*0.54, 1e-9)
	within("banks' units", c.BankUnits, unitReads/16*8*tCK*128*1.129e-3, 1e-9)
	activate := milliampere * (57*74 - 52*52 - 37*22) * tCK
	// 2,049 to 2,055 tokens are 5 rows of keys and 5 of values in each of 16 banks; appends open 5 more banks. Prompts and
	// vectors are written row by row.
	written := float64(requests*input*3*m.KVHeads)*512 + heads*768
	within("activation", c.DRAMActivate, (heads*(10*16+5)+written/8192)*activate, 0.001)
	within("refresh", c.DRAMRefresh, 64*dies*milliampere*(250-37)*560/12480*r.end.Seconds(), 1e-9)
	// Per token, a quarter of a burst of weights comes in and of scores goes out, and 16 bursts of results per head; 5 bursts of a
	// bank are appended, q takes 4, the row sum 3.
	burst := func(milliamperes float64) float64 { return milliampere * milliamperes * 4 * tCK }
	within("writing", c.DRAMWrite, (written/64+tokens/4+heads*12)*burst(150-52), 0.01)
	within("reading", c.DRAMRead, (heads*256/64+tokens/4+heads*16)*burst(168-52), 0.01)
	// A token of a long context: 4.63 clocks, 4.55 of them with rows open.
	clocks := 4.63 * tCK
	token := 8*0.54*read + burst(168-52)/4 + burst(150-52)/4 + 0.5*512*2.7e-12 + activate/16 + 4.55*tCK*milliampere*(52-37) + 8*8*tCK*8*1.129e-3 + clocks*(1.812+4.345)*1e-3
	within("a rank", r.report.Rank, token/clocks*(1-560./12480)+dies*(milliampere*(37+(250-37)*560/12480.)+8*7.5e-3), 0.003)
	if r.report.DIMM <= 2*r.report.Rank || r.report.DIMM > 2*r.report.Rank+1.5+1e-9 || r.report.DIMMLimit != 10 {
		t.Errorf("a rank draws %v W, a DIMM %v W of %v", r.report.Rank, r.report.DIMM, r.report.DIMMLimit)
	}
	within("links", c.Links, 8e-11*(written+heads*256), 0.001)
	within("rank units", c.RankUnits, tokens*4*tCK*(1.812+4.345)*1e-3, 0.35) // 4 clocks a token, plus a head's start and end
}

// TestSystemsReadTheSame: every system that attends away from the GPUs reads each key and value
// once, by hand.
func TestSystemsReadTheSame(t *testing.T) {
	const requests, input, output, layers = 4, 900, 6, 2
	tokens := 0.0 // of single KV heads of 512 bytes
	for step := 1; step < output; step++ {
		tokens += requests * layers * 72 * float64(input+step)
	}
	read := tokens * 512 / 64 * 8 * 1.2 * 1e-3 * (168 - 52) * 4 * 625e-12 // joules of as many bursts
	for _, c := range []struct {
		system string
		of     func(c *results.EnergyComponents) float64
		want   float64
	}{
		{"l3", func(c *results.EnergyComponents) float64 { return c.PIMRead }, 0.54 * read}, {"rank-pim", func(c *results.EnergyComponents) float64 { return c.DRAMRead }, read},
		{"gpu+cpu", func(c *results.EnergyComponents) float64 { return c.DRAMRead }, read}, {"cpu-offload", func(c *results.EnergyComponents) float64 { return c.DRAMRead }, read},
		{"hbm-pim", func(c *results.EnergyComponents) float64 { return c.HBMPIM }, tokens * 512 * 8 * 1.56e-12},
	} {
		_, r := energyOf(t, equalLengths(requests, input, output), "run.system="+c.system, "model.layers=2", "cpu_offload.policy=fastdecode")
		if got := c.of(&r.report.Components); math.Abs(got/c.want-1) > 0.02 {
			t.Errorf("%s reads for %v J, by hand %v J", c.system, got, c.want)
		}
	}
	// If a group's query heads read separately, units in HBM read as often.
	_, one := energyOf(t, equalLengths(requests, input, output), "run.system=hbm-pim", "model.layers=2", "model.kv_heads=18")
	_, four := energyOf(t, equalLengths(requests, input, output), "run.system=hbm-pim", "model.layers=2", "model.kv_heads=18", "hbm_pim.queries_per_read=4")
	if a, b := one.report.Components.HBMPIM, four.report.Components.HBMPIM; !close9(a, 4*b) {
		t.Errorf("four readings take %v J, one %v J", a, b)
	}
}

// TestCPUsDraw: the sockets' power for attention is the configured one, for as long as the channels are busy.
func TestCPUsDraw(t *testing.T) {
	_, r := energyOf(t, equalLengths(4, 900, 6), "run.system=gpu+cpu", "model.layers=2")
	seconds := r.end.Seconds()
	want := 2*75*seconds + 2*(225-75)*r.busy.Channel*seconds
	if got := r.report.Components.HostCPUs; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("the sockets draw %v J, want %v", got, want)
	}
}

// TestGradeOfTotal: the assumed share is that of components that rest on an assumption, and the grade of a total is that of its
// worst constant.
func TestGradeOfTotal(t *testing.T) {
	n, r := energyOf(t, equalLengths(4, 900, 6), "run.system=l3", "model.layers=2")
	s, err := r.Summary(n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if e := &s.EnergyReport; !close9(e.OutputTokensPerJoule*e.Total, 4*6) || !close9(e.TotalTokensPerJoule*e.Total, 4*906) {
		t.Errorf("%+v of 24 tokens and 3600 of prompts", e)
	}
	c := &r.report.Components
	if want := (c.GPU + c.DRAMIO + c.DIMMBuffers + c.Links + c.Board) / r.report.Total; !close9(r.report.AssumedShare, want) || r.report.Grade != "assumption" {
		t.Errorf("%v of it is assumed, want %v; grade %s", r.report.AssumedShare, want, r.report.Grade)
	}
	sets := []string{"run.system=gpu-only", "model.layers=2", "energy.gpu_factor=1 [1, 1] measured", "energy.board=500 [400, 600] paper", "energy.dimm_buffer=1 [1, 1] datasheet", "energy.pue=1.1 [1, 1.2] measured", "energy.cpu_idle=60 [50, 70] paper"}
	if _, r := energyOf(t, equalLengths(4, 900, 6), sets...); r.report.AssumedShare != 0 || r.report.Grade != "paper" {
		t.Errorf("%v of it is assumed; grade %s", r.report.AssumedShare, r.report.Grade)
	}
}

// TestUnknownCurrents: if the DRAM's currents are unknown, the report says that its chips are missing.
func TestUnknownCurrents(t *testing.T) {
	sets := []string{"run.system=gpu+cpu", "model.layers=2"}
	for _, key := range []string{"VDD", "IDD0", "IDD2N", "IDD3N", "IDD4R", "IDD4W", "IDD5B", "IDD2P", "IDD3P", "IDD6"} {
		sets = append(sets, "dram.power."+key+"=0")
	}
	if _, r := energyOf(t, equalLengths(4, 900, 6), sets...); len(r.report.NotEstimated) != 1 || r.report.Components.DRAMClosed != 0 {
		t.Errorf("%+v", r.report)
	}
	if _, r := energyOf(t, equalLengths(4, 900, 6), sets[:2]...); len(r.report.NotEstimated) != 0 {
		t.Errorf("%+v", r.report)
	}
}

// TestPowerLimit: a limit above a DIMM's power changes nothing. A lower one makes the busiest DIMM draw the limit, without
// a warning, and takes longer for the same joules of commands and units; only standby grows. All laws hold.
func TestPowerLimit(t *testing.T) {
	for _, c := range []struct {
		sets          []string
		above, limits []float64
	}{
		{nil, []float64{15.6, 1e4}, []float64{14, 10, 7}}, {[]string{"node.memory_capacity=512GiB"}, []float64{12.5}, []float64{10}},
		{[]string{"run.system=rank-pim"}, []float64{1e4}, []float64{7}}, {[]string{"policy.name=quest", "policy.quest.select_device=bank"}, []float64{15.6}, []float64{9}},
	}[:deep.Of(1, 4, 4)] {
		run := func(limit float64) (*Result, *results.Summary) {
			cfg, err := everything().Load(configs.Options{Sets: append([]string{"model.layers=2", fmt.Sprintf("pim.power_limit=%v", limit)}, c.sets...)})
			if err != nil {
				t.Fatal(err)
			}
			r, err := mustNode(t, cfg).Run(t.Context(), coming(t, cfg, equalLengths(24, 3000, 12)), Options{Check: true})
			if err != nil {
				t.Fatal(err)
			}
			s, err := r.Summary(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return r, s
		}
		free, s := run(0)
		for _, limit := range c.above {
			r, _ := run(limit)
			r.report.DIMMHigh = free.report.DIMMHigh // never above the limit
			if r.end != free.end || !reflect.DeepEqual(r.report, free.report) {
				t.Errorf("%v: %v W change %v to %v", c.sets, limit, free.report, r.report)
			}
		}
		before := free
		for _, limit := range c.limits {
			r, slow := run(limit)
			x, y := &free.report.Components, &r.report.Components
			if r.end <= before.end || slow.OutputTokensPerS >= s.OutputTokensPerS {
				t.Errorf("%v: at %v W %v, before %v", c.sets, limit, r.end, before.end)
			}
			before = r
			if d, e := r.report.DIMM, 2*r.report.Rank+1.5; d > limit || r.report.DIMMHigh > limit || e > limit*(1+1e-6) || e < limit*(1-5e-4) {
				t.Errorf("%v: at %v W a DIMM draws %v, %v, by its ranks and buffers %v", c.sets, limit, d, r.report.DIMMHigh, e)
			}
			for _, pair := range [][2]float64{{x.DRAMActivate, y.DRAMActivate}, {x.PIMRead, y.PIMRead}, {x.DRAMRead, y.DRAMRead}, {x.DRAMWrite, y.DRAMWrite}, {x.DRAMIO, y.DRAMIO}, {x.DRAMOpen, y.DRAMOpen}, {x.BankUnits, y.BankUnits}, {x.RankUnits, y.RankUnits}, {x.Links, y.Links}} {
				if !close9(pair[0], pair[1]) {
					t.Errorf("%v: at %v W %v J, without a limit %v J", c.sets, limit, pair[1], pair[0])
				}
			}
			if want := x.DRAMClosed * float64(r.end) / float64(free.end); !close9(y.DRAMClosed, want) {
				t.Errorf("%v: at %v W standby takes %v J, by time %v J", c.sets, limit, y.DRAMClosed, want)
			}
			for _, warning := range slow.Warnings() {
				if strings.Contains(warning, "a DIMM draws") && limit <= r.report.DIMMLimit {
					t.Error(warning)
				}
			}
		}
	}
}

// TestConstantsCount: doubling a constant doubles what rests on it and changes nothing else, in the systems that use it.
func TestConstantsCount(t *testing.T) {
	deep.Heavy(t)
	run := func(system, key, set string) *Result {
		sets := []string{"run.system=" + system, "model.layers=2", set}
		if system == "hbm-pim" && key != "hbm_pim_read" {
			sets = append(sets, "hbm_pim.model=commands")
		}
		_, r := energyOf(t, equalLengths(4, 900, 6), sets...)
		return r
	}
	known := map[string]string{"dimm_limit": ""}
	for _, c := range []struct {
		system, key string
		parts       []string // components that double, or change in part
		doubles     bool
	}{
		{"l3", "gpu_factor", []string{"GPU"}, true}, {"l3", "dram_current_factor", []string{"DRAMActivate", "DRAMRead", "DRAMWrite", "DRAMRefresh", "DRAMOpen", "DRAMClosed", "PIMRead"}, true},
		{"l3", "dram_io", []string{"DRAMIO"}, true}, {"l3", "dram_vpp", []string{"DRAMVPP"}, true}, {"l3", "pim_read_share", []string{"PIMRead"}, true}, {"l3", "bank_unit", []string{"BankUnits"}, true},
		{"l3", "relayout_unit", []string{"RankUnits"}, false}, {"l3", "adder_unit", []string{"RankUnits"}, false}, {"l3", "softmax_unit", []string{"RankUnits"}, false},
		{"l3", "dimm_buffer", []string{"DIMMBuffers"}, true}, {"hbm-pim", "hbm_pim_read", []string{"HBMPIM"}, true}, {"hbm-pim", "hbm_row", []string{"HBMPIM"}, false},
		{"hbm-pim", "hbm_array", []string{"HBMPIM"}, false}, {"hbm-pim", "hbm_group", []string{"HBMPIM"}, false}, {"hbm-pim", "hbm_die", []string{"HBMPIM"}, false},
		{"hbm-pim", "hbm_pins", []string{"HBMPIM"}, false}, {"hbm-pim", "hbm_multiply", []string{"HBMPIM"}, false}, {"l3", "link", []string{"Links"}, true},
		{"l3", "cpu_idle", []string{"HostCPUs"}, true}, {"gpu+cpu", "cpu_busy", []string{"HostCPUs"}, false}, {"l3", "board", []string{"Board"}, true}, {"l3", "pue", nil, false},
	} {
		known[c.key] = c.system
		s := energySpec(t)
		factor := 2.0
		if c.key == "pim_read_share" {
			factor = 0.5 // a share
		}
		a, b := run(c.system, c.key, "energy.ranks_per_dimm=2"), run(c.system, c.key, fmt.Sprintf("energy.%s=%v", c.key, factor*s[c.key]))
		x, y := a.report.Components.Parts(), b.report.Components.Parts()
		for i := range x {
			part := reflect.TypeFor[results.EnergyComponents]().Field(i).Name
			switch rests := slices.Contains(c.parts, part); {
			case part == "Cooling":
				if y[i] == x[i] {
					t.Errorf("%s: cooling is the same", c.key)
				}
			case rests && c.doubles && (x[i] == 0 || !close9(y[i], factor*x[i])), rests && y[i] <= x[i] && factor > 1:
				t.Errorf("%s: %s takes %v J, then %v J", c.key, part, x[i], y[i])
			case !rests && y[i] != x[i]:
				t.Errorf("%s: %s takes %v J, then %v J", c.key, part, x[i], y[i])
			}
		}
	}
	for key := range energySpec(t) {
		if _, ok := known[key]; !ok {
			t.Errorf("no test of energy.%s", key)
		}
	}
}

// energySpec returns the constants of [energy] by key.
func energySpec(t *testing.T) map[string]float64 {
	cfg, err := everything().Load(configs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	v := reflect.ValueOf(cfg.Energy)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if c, ok := v.FieldByIndex(f.Index).Interface().(energy.Constant); ok {
			all[f.Tag.Get("toml")] = c.Estimate().Value
		}
	}
	return all
}

// dies is how many of 8 Gb are at each position of a rank of 32 GiB.
const dies = 4
