package power

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// Two replicas have four A100s each. Each has 32 ranks of eight chips of DDR4-3200 (1.2 V, tCK 625 ps, rows of 8 KiB in a rank,
// bursts of 64 B in 4 clocks, at 25.6 GB/s). A token of a KV head has 512 B: 128 elements of 2 B of the key, and of the value.
const (
	tCK   = 625e-12
	milli = 8 * 1.2 * 1e-3 // watts of a mA in eight chips
	links = 4 * 0.79 * 16e9 * 16 / 8 * 128 / 130
	token = 512
)

func twoReplicas(t *testing.T, sets ...string) *Meter {
	return meterOf(t, append([]string{`run.model="llama-3-8b"`, "model.tensor_parallel=4"}, sets...)...)
}

// streamed returns the power for n bytes that are read, or written, row after row: IDD4R is 168 mA, IDD4W 150, IDD3N 52, IDD0 57, IDD2N
// 37.
func streamed(n, reads, writes float64) (d draw) {
	bursts, both := n/64, reads+writes
	d[drawActivate] = both * n / 8192 * milli * (57*74 - 52*52 - 37*22) * tCK // tRC 74, tRAS 52
	d[drawRead] = reads * bursts * milli * (168 - 52) * 4 * tCK
	d[drawWrite] = writes * bursts * milli * (150 - 52) * 4 * tCK
	d[drawIO] = both * 8 * n * 2.7e-12
	return d
}

// same compares parts; what open rows add to standby is checked separately.
func same(t *testing.T, what string, got, want *draw) {
	for i := range got {
		if i != drawOpen && math.Abs(got[i]-want[i]) > 1e-9*math.Abs(want[i]) {
			t.Errorf("%s: part %d is %v, by hand %v", what, i, got[i], want[i])
		}
	}
}

// TestWattsByHand: the power of each thing that a replica does, in each kind of system.
func TestWattsByHand(t *testing.T) {
	down, up, copied, attended := streamed(links, 0, 1), streamed(links, 1, 0), streamed(links, 1, 2), streamed(token, 1, 0)
	for _, d := range []*draw{&down, &up} {
		d[drawLinks] = links * 8 * 10e-12 // 10 pJ a bit
	}
	down[drawRankUnits] = links / 25.6e9 * 0.245e-3 // re-layout units of as many channels as the links fill
	copied[drawLinks] = down[drawLinks]
	cores := draw{drawCPUs: 225 - 75}               // one of the node's two sockets
	stack := draw{drawHBMPIM: 8 * token * 1.56e-12} // 1.56 pJ a bit
	none := draw{}
	for _, c := range []struct {
		name string
		sets []string
		want map[int]*draw
	}{
		{"l3", []string{"run.system=l3"}, map[int]*draw{byDown: &down, byUp: &up, byTokens: &none, byChannels: &none}},
		{"l3, CPU transposition", []string{"run.system=l3", "pim.relayout=cpu"}, map[int]*draw{byDown: &copied, byUp: &up}},
		{"gpu+cpu", []string{"run.system=gpu+cpu"}, map[int]*draw{byDown: &down, byUp: &up, byTokens: &attended, byChannels: &cores}},
		{"gpu+cpu, whatever [pim] says", []string{"run.system=gpu+cpu", "pim.relayout=cpu"}, map[int]*draw{byDown: &down}},
		{"cpu-offload", []string{"run.system=cpu-offload"}, map[int]*draw{byDown: &down, byTokens: &attended, byChannels: &cores}},
		{"gpu-only", []string{"run.system=gpu-only"}, map[int]*draw{byDown: &none, byUp: &none, byTokens: &none, byChannels: &none}},
		{"gpu-only with a tier of prefixes", []string{"run.system=gpu-only", "cache.prefix=true", "cache.host_capacity=1GiB"}, map[int]*draw{byDown: &down, byUp: &up, byTokens: &none}},
		{"hbm-pim", []string{"run.system=hbm-pim"}, map[int]*draw{byDown: &none, byTokens: &stack, byRows: &none}},
	} {
		each := &twoReplicas(t, c.sets...).Power(energy.Mid).each
		for cause, want := range c.want {
			same(t, c.name, &each[cause], want)
		}
		same(t, c.name+": time at work", &each[byGPUTime], &draw{drawGPU: -4 * 90}) // is not idle time
		same(t, c.name+": GPUs' work", &each[byGPUWork], &draw{drawGPU: 1})
	}
}

// TestBandsByHand: at the ends of bands the GPUs' factor is 0.8 and 1.2; for prompts it is 22% lower and higher.
func TestBandsByHand(t *testing.T) {
	m := twoReplicas(t, "run.system=l3")
	for at, want := range map[energy.Place][3]float64{energy.Low: {0.8, -0.22 * 0.8, 50}, energy.Mid: {1, 0, 75}, energy.High: {1.2, 0.22 * 1.2, 110}} {
		p := m.Power(at)
		got := [3]float64{p.each[byGPUWork][drawGPU], p.each[byPrompts][drawGPU], p.each[byTime][drawCPUs]}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-12 {
				t.Errorf("%v: %v, by hand %v", at, got, want)
			}
		}
	}
	// A node of one replica has both sockets for it. Sockets that attend draw at least the idle power.
	if got := meterOf(t, "run.system=gpu+cpu").Power(energy.Mid).each[byChannels][drawCPUs]; got != 2*(225-75) {
		t.Errorf("both busy sockets draw %v W more", got)
	}
	odd := twoReplicas(t, "run.system=gpu+cpu", "energy.cpu_busy=60 [50, 70] datasheet")
	if got := odd.Power(energy.Mid).each[byChannels][drawCPUs]; got != 0 {
		t.Errorf("busy sockets draw %v W more", got)
	}
}

// TestSocketsByHand: half of a server's GPUs have half of its sockets, but both sockets if a system or a cache uses the memory of their
// channels.
func TestSocketsByHand(t *testing.T) {
	for _, c := range []struct {
		sets    []string
		sockets float64
	}{
		{[]string{"run.system=gpu-only"}, 1}, {[]string{"run.system=gpu-only", "cache.prefix=true"}, 1},
		{[]string{"run.system=gpu-only", "cache.prefix=true", "cache.host_capacity=1GiB"}, 2}, {[]string{"run.system=gpu+cpu"}, 2},
	} {
		got := meterOf(t, append([]string{`run.model="llama-3-8b"`, "node.gpus=4", "model.tensor_parallel=4"}, c.sets...)...).Power(energy.Mid).each[byTime][drawCPUs]
		if !alike9(got, c.sockets*75) {
			t.Errorf("%v: idle sockets draw %v W, by hand %v", c.sets, got, c.sockets*75)
		}
	}
}

// TestUnitsByHand: single commands of ranks of DIMM-PIM, and of units in HBM.
func TestUnitsByHand(t *testing.T) {
	deep.Heavy(t)
	each := twoReplicas(t, "run.system=l3").Power(energy.Mid).each
	read, write := milli*(168-52)*4*tCK, milli*(150-52)*4*tCK
	same(t, "activate", &each[byActivates], &draw{drawActivate: milli * (57*74 - 52*52 - 37*22) * tCK})
	// A bank's unit works for tCCD_L, 8 clocks, in all eight chips, at 1.129 mW; a read for it takes 0.54 of one up to the pins.
	same(t, "a unit's read", &each[byUnitReads], &draw{drawUnitRead: 0.54 * read, drawBankUnits: 8 * tCK * 8 * 1.129e-3})
	same(t, "read", &each[byRankReads], &draw{drawRead: read, drawIO: 512 * 2.7e-12})
	same(t, "write", &each[byRankWrites], &draw{drawWrite: write, drawIO: 512 * 2.7e-12})
	same(t, "clock", &each[byClocks], &draw{drawRankUnits: tCK * (1.812 + 4.345) * 1e-3})
	if got, want := each[byOpen][drawOpen], milli*(52-37)*tCK; !alike9(got, want) {
		t.Errorf("all banks open for a clock: %v J, by hand %v J", got, want)
	}
	// On buffer chips units work while bursts come: 4 clocks.
	each = twoReplicas(t, "run.system=rank-pim").Power(energy.Mid).each
	same(t, "a rank-level unit's read", &each[byRankReads], &draw{drawRead: read, drawIO: 512 * 2.7e-12, drawBankUnits: 4 * tCK * 8 * 1.129e-3})
	// HBM: a column is 32 B, 256 bits or 16 products of 16 bits.
	for level, want := range map[hbm.Level][4]float64{ // rows, reads, queries, moves
		hbm.Bank:      {0.9e-9, 256*0.44e-12 + 16*0.32e-12, 256 * (0.3 + 1.73 + 1.01) * 1e-12, 256 * (1.73 + 1.01) * 1e-12},
		hbm.BankGroup: {0.9e-9, 256*(0.44+1.01)*1e-12 + 16*0.32e-12, 256 * (0.3 + 1.73) * 1e-12, 256 * 1.73e-12},
	} {
		each = twoReplicas(t, "run.system=hbm-pim", "hbm_pim.model=commands", "hbm_pim.level="+string(level)).Power(energy.Mid).each
		for i, joules := range want {
			same(t, string(level), &each[byRows+i], &draw{drawHBMPIM: joules})
		}
		same(t, string(level), &each[byTokens], &draw{})
	}
}

// TestDIMMByHand: if the host reads, one rank of a DIMM is read at the channel's rate, the others stand by, and a buffer draws 1.5 W. A
// DIMM of DDR5 is read on both of its sub-channels.
func TestDIMMByHand(t *testing.T) {
	p := twoReplicas(t, "run.system=gpu+cpu").Power(energy.Mid)
	// Stacks of four dies stand by, refresh (tRFC 560 of each 12480 clocks) and hold word lines ready (7.5 mW a die).
	idle := 4 * (milli*(37+(250-37)*560/12480.) + 8*7.5e-3)
	stream := streamed(25.6e9, 1, 0)
	open := p.rank - idle - stream.total() // a bank is open all the time: at most what all banks add
	if open <= 0 || open > milli*(52-37)*(1+1e-9) {
		t.Errorf("a rank draws %v W: %v W idle, %v W of reading and %v W of open rows", p.rank, idle, stream.total(), open)
	}
	if want := p.rank + idle + 1.5; !alike9(p.dimm, want) {
		t.Errorf("a DIMM draws %v W, by hand %v W", p.dimm, want)
	}
	for ranks, set := range map[float64]string{1: "energy.ranks_per_dimm=1", 4: "energy.ranks_per_dimm=4"} {
		if got := twoReplicas(t, "run.system=gpu+cpu", set).Power(energy.Mid).dimm; !alike9(got, p.rank+(ranks-1)*idle+1.5) {
			t.Errorf("a DIMM of %v ranks draws %v W", ranks, got)
		}
	}
	ddr5 := []string{`dram.preset="ddr5-4800-16gb-x8"`, "node.channels=32", "run.system=gpu+cpu"}
	one, two := twoReplicas(t, append(ddr5, "energy.ranks_per_dimm=1")...).Power(energy.Mid), twoReplicas(t, ddr5...).Power(energy.Mid)
	if !alike9(one.dimm, 2*one.rank+1.5) {
		t.Errorf("a DIMM of one rank on each of two sub-channels draws %v W, a rank %v W", one.dimm, one.rank)
	}
	stand := &two.each[byTime] // of a replica's 16 channels of four ranks
	if got, want := two.dimm-one.dimm, 2*(stand[drawRefresh]+stand[drawClosed]+stand[drawVPP])/64; !alike9(got, want) {
		t.Errorf("a second rank on each sub-channel adds %v W, by hand %v W", got, want)
	}
	// A rank of bank-level units that attends for heads of single queries without end: 4.63 clocks a token, 4.55 of them with rows
	// open. For its share of 16 banks' rows, units read 8 times for a token; a quarter of a burst of weights comes in, and of scores
	// goes out.
	burst := func(mA float64) float64 { return milli*mA*4*tCK + 512*2.7e-12 }
	joules := 8*(0.54*milli*(168-52)*4*tCK+8*tCK*8*1.129e-3) + burst(168-52)/4 + burst(150-52)/4 + milli*(57*74-52*52-37*22)*tCK/16 + 4.55*tCK*milli*(52-37) + 4.63*tCK*(1.812+4.345)*1e-3
	want := joules/(4.63*tCK)*(1-560./12480) + idle // refresh stops it
	if got := meterOf(t, "run.system=l3").Power(energy.Mid).rank; math.Abs(got/want-1) > 0.003 {
		t.Errorf("a rank that attends draws %v W, by hand %v W", got, want)
	}
	// With units, all ranks of a DIMM attend, up to a limit.
	all, limited := twoReplicas(t, "run.system=l3").Power(energy.Mid), twoReplicas(t, "run.system=l3", "pim.power_limit=10").Power(energy.High)
	if !alike9(all.dimm, 2*all.rank+1.5) || limited.dimm > 10*(1+1e-9) {
		t.Errorf("a DIMM draws %v W of ranks of %v W, %v W at a limit of 10", all.dimm, all.rank, limited.dimm)
	}
}

// TestCausesByHand: every kind of work is separate, in a replica's iteration and in a run of three replicas.
func TestCausesByHand(t *testing.T) {
	const seconds = 2
	w := flow.Work{Effort: flow.Effort{
		Joules: flow.Joules{Prefill: 3, Decode: 5}, Tokens: 7,
		Ranks: machine.Activity{Activates: 11, UnitReads: 13, Reads: 17, Writes: 19, Open: 23, Clocks: 29}, HBM: hbm.Tally{Rows: 31, Reads: 37, Queries: 41, Moves: 43},
	}}
	for on, s := range map[int]units.Duration{flow.OfGPU: 47, flow.OfDown: 53, flow.OfUp: 59, flow.OfChannel: 61, flow.OfPIM: 67} {
		w.Time[on] = s * units.Second
	}
	want := [causes]float64{byTime: 2, byGPUWork: 8, byPrompts: 3, byGPUTime: 47, byTokens: 7, byActivates: 11, byUnitReads: 13, byRankReads: 17, byRankWrites: 19, byOpen: 23, byClocks: 29,
		byRows: 31, byReads: 37, byQueries: 41, byMoves: 43, byDown: 53, byUp: 59, byChannels: 61}
	if got := causesOfWork(&w, seconds*units.Second); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	var b flow.Busy
	b.Did(&w)
	want[byTime] = 6
	if got := causesOfRun(&b, seconds*units.Second, 3); got != want {
		t.Errorf("of three replicas %v, want %v", got, want)
	}
}

// TestWattsAddUp: joules are linear in causes, cooling is a share of everything else, and a timeline's watts are those joules by
// device.
func TestWattsAddUp(t *testing.T) {
	p := Watts{pue: 1.5}
	p.each[byTime] = draw{drawGPU: 1, drawBoard: 2, drawCPUs: 4, drawBuffers: 8}
	p.each[byGPUWork] = draw{drawGPU: 1}
	p.each[byDown] = draw{drawLinks: 16, drawWrite: 32}
	p.each[byTokens] = draw{drawHBMPIM: 64}
	w := flow.Work{Effort: flow.Effort{Joules: flow.Joules{Prefill: 100, Decode: 200}, Tokens: 1}}
	w.Time[flow.OfDown] = 5 * units.Second
	// 2 s of 1 + 2 + 4 + 8 W, 300 J of GPUs, 5 s of 16 + 32 W, a token of 64 J; and half as much for cooling.
	const gpus, memory, host = 2*1 + 300 + 64, 2*8 + 5*32, 2*(2+4) + 5*16
	if got := p.Joules(&w, 2*units.Second); got != 1.5*(gpus+memory+host) {
		t.Errorf("%v J, by hand %v", got, 1.5*(gpus+memory+host))
	}
	want := DeviceWatts{gpus: gpus / 2., memory: memory / 2., host: host / 2., cooling: 0.5 * (gpus + memory + host) / 2}
	if got := p.Draws(&w, 2*units.Second); got != want {
		t.Errorf("%+v, by hand %+v", got, want)
	}
	if got := p.Draws(&w, 0); got != (DeviceWatts{}) {
		t.Errorf("in no time: %+v", got)
	}
}

// TestGPUsByHand: two replicas of four GPUs run for 10 s, in which both together work for 6 s of a replica: 2*4*10 - 4*6 = 56 GPU
// seconds idle at 90 W.
func TestGPUsByHand(t *testing.T) {
	m := twoReplicas(t, "run.system=l3")
	var b flow.Busy
	b.Joules = flow.Joules{Prefill: 1000, Decode: 500}
	b.Time[flow.OfGPU].Add(6 * units.Second)
	e := m.GPUs(&b, 10*units.Second, 4)
	if e.Prefill != 1000 || e.Decode != 500 || !alike9(e.Idle, 56*90) || !alike9(e.GPU, 1500+56*90) || !alike9(e.Token, (1500+56*90)/4.) {
		t.Errorf("%+v", e)
	}
	if e := m.GPUs(&b, 10*units.Second, 1); !alike9(e.Token, e.GPU) {
		t.Errorf("one token takes %v J of %v", e.Token, e.GPU)
	}
	if e := m.GPUs(&b, 10*units.Second, 0); e.Token != 0 {
		t.Errorf("no token takes %v J", e.Token)
	}
	b.Time[flow.OfGPU].Add(50 * units.Second) // sums are rounded: never below 0
	if e := m.GPUs(&b, 10*units.Second, 4); e.Idle != 0 {
		t.Errorf("idle for %v J", e.Idle)
	}
	// The report has the same, and the ends of its band.
	r := m.Report(&b, 10*units.Second)
	if want := 2*10*4*90 - 56*4*90 + 1500.; !alike9(r.Components.GPU, want) || !alike9(r.Watts*10, r.Total) {
		t.Errorf("%v W, GPUs take %v J, by hand %v", r.Watts, r.Components.GPU, want)
	}
	if r.RankDies != 8*4 {
		t.Errorf("%d dies a rank", r.RankDies)
	}
	if r := m.Report(&flow.Busy{}, 0); r.Watts != 0 || r.Total != 0 || r.AssumedShare != 0 {
		t.Errorf("%+v", r)
	}
}

// TestReportByHand: a millisecond of an idle node, with the share that rests on assumptions: GPUs' factor, board, buffers.
func TestReportByHand(t *testing.T) {
	m := meterOf(t, "run.system=l3")
	r := m.Report(&flow.Busy{}, units.Millisecond)
	const assumed = 8*90 + 1000 + 32*1.5
	all := 1.25 * (assumed + 2*75 + 64*4*(milli*(37+(250-37)*560/12480.)+8*7.5e-3))
	if !alike9(r.Watts, all) || !alike9(r.Total, all*1e-3) || !alike9(r.AssumedShare, assumed/all) || r.Grade != string(energy.Assumption) {
		t.Errorf("%v W, %v J, %v of it assumed, grade %v; by hand %v W, %v", r.Watts, r.Total, r.AssumedShare, r.Grade, all, assumed/all)
	}
	// Low: GPUs take 0.8, DRAM 0.6 of its currents and 5 mW of VPP, buffers 0.5 W, sockets 50 W, the board 600 W, the site 1.1.
	if low := 1.1e-3 * (8*90*0.8 + 600 + 32*0.5 + 2*50 + 64*4*(0.6*milli*(37+(250-37)*560/12480.)+8*5e-3)); !alike9(r.Low, low) {
		t.Errorf("at the low ends %v J, by hand %v", r.Low, low)
	}
	if high := 1.58e-3 * (8*90*1.2 + 2000 + 32*3 + 2*110 + 64*4*(milli*(37+(250-37)*560/12480.)+8*15e-3)); !alike9(r.High, high) {
		t.Errorf("at the high ends %v J, by hand %v", r.High, high)
	}
}

// TestDrawsAreNamed: what a timeline and a report say of a draw, each by its name.
func TestDrawsAreNamed(t *testing.T) {
	if got, want := (DeviceWatts{gpus: 1, memory: 2, host: 3, cooling: 4}).Args(), (map[string]any{"GPUs": 1., "DIMMs and units": 2., "host and board": 3., "cooling": 4.}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// Energy of chips is known where their currents are published.
	m := meterOf(t, "run.system=l3")
	if r := m.Report(&flow.Busy{}, units.Millisecond); len(r.NotEstimated) != 0 || !r.DRAMEstimated {
		t.Errorf("not estimated %q, the chips are %v", r.NotEstimated, r.DRAMEstimated)
	}
	m.Hardware.Config.DRAM.Power = dram.PowerSpec{}
	want := []string{"DRAM chips: no currents of " + m.Hardware.Config.DRAM.Name + " are published"}
	if r := m.Report(&flow.Busy{}, units.Millisecond); !slices.Equal(r.NotEstimated, want) || r.DRAMEstimated {
		t.Errorf("not estimated %q, the chips are %v; want %q", r.NotEstimated, r.DRAMEstimated, want)
	}
}

// TestConstantsOfParts: units in HBM depend on one constant if a factor gives their time, and on six if commands do.
func TestConstantsOfParts(t *testing.T) {
	plain, commands := meterOf(t, "run.system=hbm-pim"), meterOf(t, "run.system=hbm-pim", "hbm_pim.model=commands")
	e := &plain.Hardware.Config.Energy
	for _, c := range []struct {
		m    *Meter
		part int
		want []energy.Constant
	}{
		{plain, drawHBMPIM, []energy.Constant{e.HBMPIMRead}}, {commands, drawHBMPIM, []energy.Constant{e.HBMRow, e.HBMArray, e.HBMGroup, e.HBMDie, e.HBMPins, e.HBMMultiply}},
		{commands, drawGPU, []energy.Constant{e.GPU}}, {commands, drawUnitRead, []energy.Constant{e.DRAMCurrents, e.PIMRead}}, {plain, drawCPUs, []energy.Constant{e.CPUIdle, e.CPUBusy}},
	} {
		if got := c.m.restsOn(c.part); !slices.Equal(got, c.want) {
			t.Errorf("part %d rests on %v, want %v", c.part, got, c.want)
		}
	}
}

// TestPricedByHand: GPUs that do not use the host's memory have the DIMMs of their slots, with whole channels for each replica and
// other dies. If the node has less, it is priced with that.
func TestPricedByHand(t *testing.T) {
	for _, c := range []struct {
		sets     []string
		channels int
		memory   units.Bytes
		ranksets int
	}{
		{nil, 16, 512 * units.GiB, 2}, // a server's 8 slots
		{[]string{"node.gpus=4", "model.tensor_parallel=4"}, 8, 256 * units.GiB, 2},
		{[]string{"node.gpus=3", "model.tensor_parallel=1", "node.channels=15"}, 6, 192 * units.GiB, 2}, // 15 * 3/8 / 3 = 1.875: 2 each
		{[]string{"node.ranksets=1"}, 16, 512 * units.GiB, 1},
		{[]string{"energy.ranks_per_dimm=4"}, 16, 512 * units.GiB, 4},
		{[]string{"node.memory_capacity=512GiB"}, 16, 512 * units.GiB, 4}, // the node's own
		{[]string{"cache.prefix=true", "cache.host_capacity=1GiB"}, 16, 2048 * units.GiB, 4},
		{[]string{"cache.prefix=true"}, 16, 512 * units.GiB, 2}, // on the GPUs alone
	} {
		sets := append([]string{"run.system=gpu-only", `run.model="llama-3-8b"`, "model.tensor_parallel=4"}, c.sets...)
		cfg := metered(t, sets...)
		got := priced(cfg, false)
		if n := &got.Node; n.Channels != c.channels || n.MemoryCapacity != c.memory || n.Ranksets != c.ranksets || got.DRAM.Dies != 0 && got != cfg {
			t.Errorf("%v: %d channels of %d ranksets, %v", c.sets, n.Channels, n.Ranksets, n.MemoryCapacity)
		}
		if priced(cfg, true) != cfg {
			t.Errorf("%v: a system that uses the memory has another", c.sets)
		}
	}
}
