package controller

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/l3sim/l3sim/dram"
)

// nodeOf returns two ranks on each of two channels of a part.
func nodeOf(t *testing.T, name string, set ...string) *Setup {
	t.Helper()
	policy, err := LookupPolicy("default")
	if err != nil {
		t.Fatal(err)
	}
	spec := *part(t, name)
	s := &Setup{Spec: &spec, Policy: policy, Channels: 2, Ranks: 2}
	for _, one := range set {
		key, value, _ := strings.Cut(one, "=")
		if err := s.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestReportByHand: shares of bus time and energies of a replay of 1,000 clocks, with power states and check bits.
func TestReportByHand(t *testing.T) {
	s := nodeOf(t, ddr43200, "power_down=timeout")
	if s.Policy.PowerDown == "off" {
		t.Fatal("no power-down")
	}
	st := &Stats{Requests: 9, EndClock: 1000, CheckReads: 3, CheckWrites: 2, ModifyReads: 1, RowHits: 7}
	st.commands[dram.RD], st.commands[dram.WR] = 40, 20
	st.Ranks = make([]RankStats, 4)
	st.Banks = make([]BankStats, 4*s.Spec.Banks())
	st.Ranks[1] = RankStats{Reads: 30, Writes: 20, Turnarounds: 4, Switches: 5, PowerDowns: 6, SelfRefreshes: 7, OpenBanks: 800}
	st.Ranks[1].Standby[dram.ActiveStandby], st.Ranks[1].Standby[dram.PrechargedStandby], st.Ranks[1].Standby[dram.ActivePowerDown] = 400, 300, 200
	st.Ranks[1].Standby[dram.PrechargedPowerDown], st.Ranks[1].Standby[dram.SelfRefresh] = 60, 40
	st.Banks[s.Spec.Banks()+2] = BankStats{RowHits: 11, Conflicts: 12, QueueClocks: 500}
	st.Banks[s.Spec.Banks()], st.Banks[2*s.Spec.Banks()-1] = BankStats{Conflicts: 1}, BankStats{RowHits: 1, Conflicts: 1} // the first and the last of the rank
	r := NewReport(s, "mine", st, 1500*time.Millisecond)
	k := r.ByRank[1]
	if r.WallS != 1.5 || len(r.ByRank) != 4 || k.Channel != 0 || k.Rank != 1 || r.ByRank[2].Channel != 1 || r.ByRank[2].Rank != 0 || k.BusShare != 50*4/1000. || k.Banks[2].Depth != 0.5 || len(k.Banks) != s.Spec.Banks() {
		t.Errorf("%+v", k)
	}
	if want := 60. * 64 / (1000 * s.Spec.TCK.Seconds()) / 1e9; math.Abs(r.GBPerS-want) > 1e-9 || r.ECC != nil || math.Abs(r.BusUtilization-60*4/2000.) > 1e-12 {
		t.Errorf("%v GB/s, by hand %v; buses %v", r.GBPerS, want, r.BusUtilization)
	}
	p := k.Power
	for state, got := range map[dram.Standby]standbyReport{dram.ActiveStandby: p.Active, dram.PrechargedStandby: p.Precharged, dram.ActivePowerDown: p.ActiveDown, dram.PrechargedPowerDown: p.Down, dram.SelfRefresh: p.SelfRefresh} {
		clocks := st.Ranks[1].Standby[state]
		if want := 1e3 * s.Spec.StandbyJoules(state, s.Spec.BusSteps(int(clocks)), s.Spec.BusSteps(800)); got.Clocks != clocks || got.EnergyMJ != want || want == 0 {
			t.Errorf("state %v: %+v, by hand %v mJ", state, got, want)
		}
	}
	if p.PowerDowns != 6 || p.SelfRefreshes != 7 {
		t.Errorf("%+v", p)
	}
	text := func(r *Report) string {
		var b strings.Builder
		r.WriteLines(&b)
		return b.String()
	}
	for _, want := range []string{
		"  standby\tactive 40.0%, precharged 30.0%\tpower-down active 20.0%, precharged 6.0% (6 times), self-refresh 4.0% (7 times)\n",
		"channel 0 rank 1\tbus 20.0%\tRD 30, WR 20, row hits 12, conflicts 14, turnarounds 4, rank switches 5\n", "row hits\t7\n", "\tmerged 0 reads",
	} {
		if !strings.Contains(text(r), want) {
			t.Errorf("%s\nwant %q", text(r), want)
		}
	}
	s.Policy.PowerDown = "off"
	if off := NewReport(s, "mine", st, 0); off.ByRank[1].Power != nil || strings.Contains(text(off), "standby") {
		t.Errorf("without power-down %+v", off.ByRank[1])
	}
	// Check bits and reads for partial writes do not count as data.
	e := nodeOf(t, ddr43200)
	e.Spec.ECC = dram.InlineECC
	st.Ranks, st.Banks = make([]RankStats, 4), make([]BankStats, 4*e.Spec.Banks())
	r = NewReport(e, "mine", st, 0)
	if want := 54. * 64 / (1000 * e.Spec.TCK.Seconds()) / 1e9; math.Abs(r.GBPerS-want) > 1e-9 || math.Abs(r.BusUtilization-60*4/2000.) > 1e-12 {
		t.Errorf("%v GB/s of data, by hand %v", r.GBPerS, want)
	}
	if x := r.ECC; x == nil || x.CheckReads != 3 || x.CheckWrites != 2 || x.ModifyReads != 1 || x.Devices != e.Spec.Devices() || x.RankBytes != int64(e.Spec.RankBytes()) {
		t.Errorf("%+v", r.ECC)
	}
	if want := fmt.Sprintf("ecc\t%s, %d chips\tcheck bits: RD 3, WR 2; RD for partial writes 1; %v a rank for data\n", e.Spec.ECC, e.Spec.Devices(), e.Spec.RankBytes()); !strings.Contains(text(r), want) {
		t.Errorf("%s\nwant %q", text(r), want)
	}
	st.EndClock = 0
	if r = NewReport(e, "mine", st, 0); r.GBPerS != 0 || r.BusUtilization != 0 {
		t.Errorf("in no time %v GB/s", r.GBPerS)
	}
}

// TestCurrentsThatLack: with power-down, the error names the currents that a part lacks.
func TestCurrentsThatLack(t *testing.T) {
	for _, name := range dram.SpecNames() {
		s := nodeOf(t, name)
		if s.Spec.ECC == "" {
			s.Spec.ECC = dram.NoECC
		}
		if got := s.UnknownCurrents(); got != nil {
			t.Errorf("%s without power-down lacks %v", name, got)
		}
		s.Policy.PowerDown = "timeout"
		var want []string
		for _, c := range []struct {
			state dram.Standby
			name  string
		}{{dram.PrechargedPowerDown, "IDD2P"}, {dram.ActivePowerDown, "IDD3P"}, {dram.SelfRefresh, "IDD6"}} {
			if _, known := s.Spec.Power.Current(c.state); !known {
				want = append(want, c.name)
			}
		}
		if got := s.UnknownCurrents(); !slices.Equal(got, want) {
			t.Errorf("%s lacks %v, by hand %v", name, got, want)
		}
	}
	if (&Setup{}).UnknownCurrents() != nil {
		t.Error("of no part")
	}
}

// TestSizesOfRequests: a request's size is a burst or a power of two of bytes, at most a row.
func TestSizesOfRequests(t *testing.T) {
	s := nodeOf(t, ddr43200)
	row := int(s.Spec.RowBytes())
	for text, want := range map[string]int{"burst": OneBurst, "1": 1, "64": 64, "4096": 4096, fmt.Sprint(row): row, fmt.Sprint(2 * row): 0, "0": 0, "-64": 0, "48": 0, "many": 0, "": 0} {
		s.RequestBytes = 0
		err := s.SetRequestBytes(text)
		if (err == nil) != (want != 0) || s.RequestBytes != want || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("burst, or a power of two, 1 to %d", row)) {
			t.Errorf("%q: %d, %v", text, s.RequestBytes, err)
		}
	}
	if err := (&Setup{}).SetRequestBytes("64"); err == nil {
		t.Error("a set-up without a part takes a size")
	}
	for bytes, want := range map[int]uint64{0: DefaultRequestBytes, OneBurst: uint64(s.Spec.BurstBytes()), 256: 256} {
		if s.RequestBytes = bytes; s.requestBytes() != want {
			t.Errorf("%d: %d bytes, by hand %d", bytes, s.requestBytes(), want)
		}
	}
}

// TestSettingsByHand: the settings that may avoid waits, by their cause, without the mapping that is already set.
func TestSettingsByHand(t *testing.T) {
	s := nodeOf(t, ddr43200)
	orders := []string{"mapping=rocorababgch", "mapping=rochrabacobg", "mapping=rochrababgco"}
	for _, c := range []struct {
		of   cause
		want []string
	}{
		{ownGroup, orders}, {rowOpens, orders}, {activates, orders}, {otherRank, orders}, {bankRow, append(slices.Clone(orders), "page=closed")}, {writesFirst, []string{"write_buffer=128 drain_high=128", orders[0]}},
		{readsFirst, []string{"write_buffer=128 drain_high=128", orders[0]}}, {refreshes, nil}, {wakes, nil}, {otherwise, nil},
	} {
		s.Policy.Mapping = "rorabgbachco"
		if got := s.settings(c.of); !slices.Equal(got, c.want) {
			t.Errorf("cause %d: %v, by hand %v", c.of, got, c.want)
		}
		s.Policy.Mapping = "rocorababgch"
		left := slices.DeleteFunc(slices.Clone(c.want), func(set string) bool { return set == orders[0] })
		if got := s.settings(c.of); !slices.Equal(got, left) {
			t.Errorf("cause %d beside %s: %v, by hand %v", c.of, s.Policy.Mapping, got, left)
		}
	}
	for _, name := range dram.SpecNames() {
		s := nodeOf(t, name)
		rules := s.Spec.Rules()
		if got := s.settings(refreshes); (len(got) == 1 && got[0] == "refresh=bank") != (len(rules.Refreshes) > 1) {
			t.Errorf("%s: %v", name, got)
		}
		for ranks := 1; ranks <= 3; ranks++ {
			s.Ranks, s.Policy.Mapping = ranks, "other"
			want := "mapping=rocorababgch"
			if rules.PseudoChannels > 1 && ranks%rules.PseudoChannels == 0 {
				want += "pc"
			}
			if got := s.settings(ownGroup); got[0] != want {
				t.Errorf("%s, %d ranks: %v, want %s", name, ranks, got, want)
			}
		}
	}
}

// TestPartsOfBurstsByHand: the parts, of eight bytes each, of a burst of 64 B that a read or write needs; and how refreshes lower counts of
// activations.
func TestPartsOfBurstsByHand(t *testing.T) {
	p := burstSplitter{burst: 64}
	each := 64 / partsOfBurst
	for _, c := range []struct {
		offset, size uint64
		write        bool
		want         uint32
	}{{0, 64, false, 1<<partsOfBurst - 1}, {0, 32, true, 1<<(partsOfBurst/2) - 1}, {32, 32, true, (1<<(partsOfBurst/2) - 1) << (partsOfBurst / 2)}, {0, uint64(each), true, 1}, {uint64(3 * each), uint64(each), true, 8}} {
		if got := p.parts(c.offset, c.size, c.write); got != c.want {
			t.Errorf("%+v: parts %b", c, got)
		}
	}
	if each > 1 {
		if a, b := p.parts(uint64(each), uint64(each/2), true), p.parts(uint64(each), uint64(each/2), false); a != 0 || b != 2 {
			t.Errorf("half a part: written %b, read %b", a, b)
		}
	}
	c := &controller{}
	for refreshes, want := range map[int64][]int{0: {0, 5, 30, 31}, 1: {0, 0, 20, 21}, 3: {0, 0, 0, 1}, 1 << 40: {0, 0, 0, 0}} {
		c.management.counts, c.management.less = []int{0, 5, 30, 31}, 10
		c.takeOffAll(refreshes)
		if !slices.Equal(c.management.counts, want) {
			t.Errorf("%d refreshes leave %v, by hand %v", refreshes, c.management.counts, want)
		}
	}
	s := &Stats{}
	s.addShared(2, []*Stats{{shared: []openRequest{{shared: 1, accepted: 5, end: 30}, {shared: 2, accepted: 8, end: 20, wrapped: true}}}, {shared: []openRequest{{shared: 1, accepted: 3, end: 25}, {shared: 2, accepted: 9, end: 50, wrapped: true}}}}, 1)
	if s.Requests != 2 || s.WrappedAddresses != 1 || s.Latency.Max() != 42 && s.WriteLatency.Max() != 42 {
		t.Errorf("%d requests, %d beyond the capacity, latency %d", s.Requests, s.WrappedAddresses, s.Latency.Max())
	}
}

// TestBurstsOfChannelsByHand: if two channels alternate, each has four of a request's eight bursts, and the request ends with the latest.
func TestBurstsOfChannelsByHand(t *testing.T) {
	s := nodeOf(t, "ddr4-2400-8gb-x8", "mapping=rocorababgch")
	to, err := s.Mapping()
	if err != nil {
		t.Fatal(err)
	}
	var a dram.Address
	p := newSplitter(s.Spec, to, 2, 512)
	home := func(address uint64) int { channel, _ := to.Decode(address, &a); return channel }
	if home(0) != 0 || home(64) != 1 || home(128) != 0 {
		t.Fatal("channels do not take turns")
	}
	for channel, first := range []uint64{1024, 1088} {
		p.channel = channel
		address, n := p.own(1024, 8)
		if address != first || n != 4 {
			t.Errorf("channel %d has %d bursts from %d", channel, n, address)
		}
		for i := range 3 {
			if address = p.next(address); address != first+uint64(i+1)*128 {
				t.Errorf("burst %d of channel %d is at %d, by hand %d", i+1, channel, address, first+uint64(i+1)*128)
			}
		}
	}
	if one := newSplitter(s.Spec, to, 1, 512); one.next(1024) != 1088 {
		t.Errorf("behind 1024 comes %d", one.next(1024))
	}
	// A request of one burst goes to one channel alone.
	parts, n := p.deal([]Request{{Address: 1024}, {Address: 1088, Bytes: 64}, {Address: 2048, Bytes: 128}, {Address: 128, Bytes: 64}})
	if want := [][]Request{{{Address: 1024, shared: 1}, {Address: 2048, Bytes: 128, shared: 2}, {Address: 128, Bytes: 64}}, {{Address: 1024, shared: 1}, {Address: 1088, Bytes: 64}, {Address: 2048, Bytes: 128, shared: 2}}}; n != 2 || !slices.Equal(parts[0], want[0]) || !slices.Equal(parts[1], want[1]) {
		t.Errorf("%d shared of %+v, by hand %+v", n, parts, want)
	}
	four := newSplitter(s.Spec, to, 2, 64)
	if parts, n := four.deal([]Request{{Address: 64}, {Address: 128}}); n != 0 || len(parts[0]) != 1 || len(parts[1]) != 1 || parts[1][0].Address != 64 {
		t.Errorf("%d shared of %+v", n, parts)
	}

	c := &controller{}
	c.channel.steps = 2
	c.front.open.of = []openRequest{{accepted: 10, arrived: 4, end: -1, left: 3}}
	for _, end := range []int64{50, 70, 60} {
		c.burstEnds(0, end)
	}
	if l := c.stats.Latency; l.Max() != 30 || c.stats.ArrivalLatency.Max() != 33 {
		t.Errorf("%+v, by hand 30 clocks from 10 to 70 steps, and 33", c.stats)
	}
}
