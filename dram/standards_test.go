package dram

import (
	"os"
	"strings"
	"testing"
)

// firstParts returns the first part of each standard.
func firstParts(t *testing.T) map[string]*Spec {
	t.Helper()
	parts := map[string]*Spec{}
	for _, s := range Standards() {
		parts[s.Name] = part(t, s.PartNames()[0])
	}
	return parts
}

// TestClosedForms: for a part of each standard, by hand, in clocks of CK: a read of a closed row, streams within one bank group and over
// all of them, activations under tFAW, and the share of time for refresh.
func TestClosedForms(t *testing.T) {
	left := firstParts(t)
	for _, c := range []struct {
		part                         string
		read, same, across           int // the first read; each further one of the same row; of one row in each bank group
		fiveACTs, refresh, intervals int // clocks from the first ACT to the fifth; of a REF; between REFs
	}{
		{"ddr4-3200-8gb-x8", 22 + 22 + 4, 8, 4, 34, 560, 12480},
		// ACT and RD both take effect with their second clock, so tRCD is unchanged.
		{"ddr5-4800-16gb-x8", 39 + 40 + 8, 12, 8, 32, 707, 9375},
		// RD's last edge is at least 31 clocks after ACT's, so RD could begin at 31.5 clocks; the next rising edge is at 32.
		{"hbm3-6400-16gb-8h", 32 + 20 + 2, 4, 2, 24, 559, 6240},
		{"hbm2-2000-8gb-4h", 15 + 14 + 2, 4, 2, 16, 349, 3900},
		// CAS goes out when the read is due, before it.
		{"lpddr5x-8533-16gb-x16", 20 + 1 + 23 + 2, 4, 2, 24, 299, 4164},
		{"gddr6-16000-8gb-x16", 31 + 28 + 2, 4, 2, 40, 241, 3800},
		{"lpddr4-2400-8gb-x16", 15 + 17 + 8, 8, 8, 32, 392, 8660},
	} {
		s := part(t, c.part)
		clocks := func(steps int64) int { return int(steps) / s.Rules().StepsPerClock }
		end, _ := readAll(s, s.Rules().PseudoChannels, bench(s, "one_read"))
		if clocks(end) != c.read {
			t.Errorf("%s: a read takes %d, want %d", c.part, clocks(end), c.read)
		}
		stream := bench(s, "hit_1bank")
		same, _ := readAll(s, s.Rules().PseudoChannels, stream)
		if got, want := clocks(same-end), (len(stream)-1)*c.same; got != want {
			t.Errorf("%s: a row takes %d after its first read, want %d", c.part, got, want)
		}
		// Over all bank groups, after all their rows are open.
		q := NewSequence(s, s.Rules().PseudoChannels)
		at := func(i int) Address { return Address{0, int32(i % s.BankGroups), 0, 7, 0} }
		for i := range s.BankGroups {
			q.Issue(ACT, at(i), 0)
		}
		first := q.Issue(RD, at(0), 10_000)
		last := first
		for i := 1; i <= 100; i++ {
			last = q.Issue(RD, at(i), first)
		}
		if got := clocks(last - first); got != 100*c.across {
			t.Errorf("%s: a hundred reads over the bank groups take %d, want %d", c.part, got, 100*c.across)
		}
		q = NewSequence(s, s.Rules().PseudoChannels)
		var acts []int64
		for _, bank := range spread(s, 5) {
			acts = append(acts, q.Issue(ACT, Address{0, int32(bank / s.BanksPerGroup), int32(bank % s.BanksPerGroup), 7, -1}, 0))
		}
		if got := clocks(acts[4] - acts[0]); got != c.fiveACTs {
			t.Errorf("%s: the fifth ACT comes %d after the first, want %d", c.part, got, c.fiveACTs)
		}
		q = NewSequence(s, s.Rules().PseudoChannels)
		q.Issue(REF, Address{0, -1, -1, -1, -1}, 0)
		if got := clocks(q.Earliest(ACT, at(0), 0)); got != c.refresh || s.TREFI != c.intervals {
			t.Errorf("%s: a REF of %d every %d, want %d every %d", c.part, got, s.TREFI, c.refresh, c.intervals)
		}
		delete(left, s.Standard)
	}
	for name := range left {
		t.Errorf("%s has no line", name)
	}
}

// TestDDR5: rules that DDR4 lacks.
func TestDDR5(t *testing.T) {
	s := firstParts(t)["ddr5"]
	q := NewSequence(s, 1)
	// REFsb occupies one bank of every group. Other banks may open after tREFSBRD, long before these.
	if at := q.Issue(REFsb, Address{0, -1, 1, -1, -1}, 0); at != 0 {
		t.Errorf("REFsb at %d", at)
	}
	own, _ := s.Timing("tRFCsb")
	other, _ := s.Timing("tREFSBRD")
	for group := range int32(s.BankGroups) {
		if at := q.Earliest(ACT, Address{0, group, 0, 7, -1}, 0); at != int64(other)-1 {
			t.Errorf("bank 0 of group %d may open at %d, want %d", group, at, other-1)
		}
		if at := q.Earliest(ACT, Address{0, group, 1, 7, -1}, 0); at != int64(own)-1 {
			t.Errorf("bank 1 of group %d may open at %d, want %d", group, at, own-1)
		}
	}
	// ACT, RD and WR hold the command bus for two clocks, PRE for one.
	q = NewSequence(s, 2)
	q.Issue(ACT, Address{0, 0, 0, 7, -1}, 0)
	if at := q.Earliest(ACT, Address{1, 0, 0, 7, -1}, 0); at != 2 {
		t.Errorf("the other rank's ACT at %d, want 2", at)
	}
	q.Issue(PRE, Address{1, 0, 0, -1, -1}, 2)
	if at := q.Earliest(ACT, Address{1, 1, 0, 7, -1}, 0); at != 3 {
		t.Errorf("ACT after PRE at %d, want 3", at)
	}
	// On x4, a write to a written bank group waits for the chip's own read-modify-write.
	q = NewSequence(s, 1)
	q.Issue(ACT, Address{0, 0, 0, 7, -1}, 0)
	q.Issue(ACT, Address{0, 0, 1, 7, -1}, 0)
	first := q.Issue(WR, Address{0, 0, 0, 7, 0}, 1000)
	if at := q.Earliest(WR, Address{0, 0, 1, 7, 0}, 0); at-first != 48 { // 20 ns of 0.416
		t.Errorf("WR after WR in a group: %d, want 48", at-first)
	}
}

// TestWritesOfDDR5: a burst on four pins is half a code word of the on-die ECC, so the device reads before it writes: 20 ns in a bank
// group. Wider devices write whole code words, 10 ns apart, which no x4 device allows.
func TestWritesOfDDR5(t *testing.T) {
	clocks := map[string][2]int64{"4800": {48, 24}, "4800an": {48, 24}, "5600": {56, 28}} // of 416 and 357 ps
	for _, s := range Standards() {
		for _, name := range s.PartNames() {
			if s.Name != "ddr5" {
				continue
			}
			s, words := part(t, name), strings.Split(name, "-")
			want := clocks[words[1]][1]
			if s.DeviceWidth == 4 {
				want = clocks[words[1]][0]
			}
			state := NewState(s, 1)
			state.Issue(WR, Address{0, 1, 0, 7, 0}, 10_000)
			if got := state.Earliest(WR, Address{0, 1, 1, 7, 0}) - 10_000; got != want {
				t.Errorf("%s: a write to a written bank group %d clocks later, want %d", name, got, want)
			}
			if got := state.Earliest(WR, Address{0, 2, 1, 7, 0}) - 10_000; got != 8 {
				t.Errorf("%s: a write to another bank group %d clocks later, want the burst's 8", name, got)
			}
		}
	}
}

// TestHBM: row and column commands have separate buses, which two pseudo-channels share.
func TestHBM(t *testing.T) {
	for name, act := range map[string]int64{"hbm3": 4, "hbm2": 2} { // ACT takes 1.5 clocks and begins on whole ones; 2
		s := firstParts(t)[name]
		ranks := int32(2)
		q := NewSequence(s, int(ranks))
		q.Issue(ACT, Address{0, 0, 0, 7, -1}, 0)
		if at := q.Earliest(ACT, Address{ranks - 1, 0, 0, 7, -1}, 0); at != act {
			t.Errorf("%s: the other pseudo-channel's ACT at step %d, want %d", name, at, act)
		}
		// A read goes out together with an ACT, on the column bus; reads of two pseudo-channels go out one clock apart.
		q.Issue(ACT, Address{1, 0, 0, 7, -1}, 0)
		at := q.Issue(ACT, Address{0, 1, 0, 7, -1}, 1000)
		if read := q.Issue(RD, Address{0, 0, 0, 7, 0}, at); read != at {
			t.Errorf("%s: RD at %d, ACT at %d", name, read, at)
		}
		if read := q.Issue(RD, Address{1, 0, 0, 7, 0}, at); read != at+int64(s.Rules().StepsPerClock) {
			t.Errorf("%s: the other pseudo-channel's RD at %d, want a clock after %d", name, read, at)
		}
	}
	// Commands of half a clock: two PREs in one clock, the second on the falling edge, where no ACT may begin.
	s := firstParts(t)["hbm3"]
	q := NewSequence(s, 2)
	if a, b := q.Issue(PRE, Address{0, 0, 0, -1, -1}, 10), q.Issue(PRE, Address{1, 0, 0, -1, -1}, 10); a != 10 || b != 11 {
		t.Errorf("PREs at %d and %d, want 10 and 11", a, b)
	}
	if at := q.Earliest(ACT, Address{0, 1, 0, 7, -1}, 11); at != 12 {
		t.Errorf("ACT at step %d, want 12", at)
	}
	// tFAW counts the activations of all SIDs of a pseudo-channel.
	q = NewSequence(s, 4)
	for i := range int32(4) {
		q.Issue(ACT, Address{i % 2, i, 0, 7, -1}, 0)
	}
	for rank, want := range []int64{48, 48, 28, 28} { // the other pseudo-channel waits for the row bus
		if at := q.Earliest(ACT, Address{int32(rank), 1, 1, 7, -1}, 0); at != want {
			t.Errorf("the fifth ACT, of rank %d, at step %d, want %d", rank, at, want)
		}
	}
	// An all-bank refresh occupies its pseudo-channel with all SIDs, and no other one.
	q = NewSequence(s, 4)
	q.Issue(REF, Address{0, -1, -1, -1, -1}, 0)
	for rank, want := range []int64{2*416 - 2, 2*416 - 2, 2, 2} {
		if at := q.Earliest(ACT, Address{int32(rank), 0, 0, 7, -1}, 0); at != want {
			t.Errorf("rank %d may open a row at step %d, want %d", rank, at, want)
		}
	}
}

// TestLPDDR5X: reads need WCK, which CAS starts and accesses keep running; an activation has two halves; REFpb refreshes a pair of banks.
func TestLPDDR5X(t *testing.T) {
	s := firstParts(t)["lpddr5x"]
	q := NewSequence(s, 1)
	var issued []Command
	q.Issued = func(_ int64, c Command, _ Address) { issued = append(issued, c) }
	bank := Address{0, 0, 0, 7, 0}
	q.Issue(ACT, bank, 0)
	first := q.Issue(RD, bank, 0)
	keeps := int64(s.CL + s.BurstClocks() + 1)
	second := q.Issue(RD, bank, first+keeps)
	third := q.Issue(RD, bank, second+keeps+1)
	if second != first+keeps || third != second+keeps+2 {
		t.Errorf("reads at %d, %d, %d", first, second, third)
	}
	if len(issued) != 6 || issued[1] != CAS || issued[4] != CAS {
		t.Errorf("issued %v, want CAS before the first and the third read", issued)
	}
	// Other commands may go between the halves of an ACT, which are at most eight clocks apart.
	b := CommandBuses{Standard: s.Rules()}
	b.Take(ACT, 0)
	for t0 := int64(1); t0 < 8; t0++ {
		if at := b.Earliest(PRE, t0); at != t0 {
			t.Fatalf("PRE at %d, want %d", at, t0)
		}
		b.Take(PRE, t0)
	}
	if at := b.Earliest(PRE, 8); at != 9 {
		t.Errorf("PRE at %d: the second half of ACT has step 8", at)
	}
	q = NewSequence(s, 1)
	q.Issue(REFpb, Address{0, 1, 2, -1, -1}, 0)
	near, _ := s.Timing("tpbR2act")
	for i := range s.Banks() {
		a := Address{0, int32(i / 4), int32(i % 4), 7, -1}
		want := int64(near)
		if a.Bank == 2 && a.BankGroup%2 == 1 {
			want = 112 // its pair: 140 ns
		}
		if at := q.Earliest(ACT, a, 0); at != want {
			t.Errorf("bank %d may open at %d, want %d", i, at, want)
		}
	}
}

// TestGDDR6: a per-bank refresh counts as an activation in tFAW, and 32 activations have a window of their own.
func TestGDDR6(t *testing.T) {
	s := *firstParts(t)["gddr6"]
	q := NewSequence(&s, 1)
	var at int64
	for i := range int32(4) {
		at = q.Issue(REFpb, Address{0, i, 0, -1, -1}, 0)
	}
	if five := q.Earliest(REFpb, Address{0, 0, 1, -1, -1}, at); five != 4*15 {
		t.Errorf("the fifth REFpb at %d, want %d: tRREFD is more than tFAW / 4", five, 4*15)
	}
	s.Timings = s.Timings.with("tRREFD", 1)
	s.TRRDS, s.TRRDL = 1, 1
	q = NewSequence(&s, 1)
	for i := range int32(4) {
		q.Issue(REFpb, Address{0, i, 0, -1, -1}, 0)
	}
	if five := q.Earliest(REFpb, Address{0, 0, 1, -1, -1}, 0); five != 29 {
		t.Errorf("the fifth REFpb at %d, want tFAW = 29", five)
	}
	s.TFAW, s.Timings = 1, s.Timings.with("t32AW", 420)
	q = NewSequence(&s, 1)
	for i := range int32(32) {
		q.Issue(ACT, Address{0, i % 4, i / 4 % 4, i, -1}, int64(i))
		q.State.Issue(PRE, Address{0, i % 4, i / 4 % 4, -1, -1}, int64(i)-1000)
	}
	if next := q.Earliest(ACT, Address{0, 0, 0, 7, -1}, 0); next < 420 {
		t.Errorf("the 33rd ACT at %d, want at least 420", next)
	}
}

// TestDocsTable: the example table of docs/reference/dram.md is valid, and its values and rule have their effect.
func TestDocsTable(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/dram.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```toml\n")
	text, _, _ = strings.Cut(text, "```")
	standard, err := ReadStandard("docs/reference/dram.md", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := standard.Part("mine-4800-16gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	q := NewSequence(s, 1)
	q.Issue(ACT, Address{0, 0, 0, 7, -1}, 0)
	q.Issue(ACT, Address{0, 1, 0, 7, -1}, 0)
	first := q.Issue(WR, Address{0, 0, 0, 7, 0}, 1000)
	if next := q.Issue(WR, Address{0, 1, 0, 7, 0}, 0); s.TFAW != 48 || next != first+8+3 {
		t.Errorf("tFAW %d, WR at %d and %d", s.TFAW, first, next)
	}
}

// TestEnergyOfPartialRefreshes: partial refreshes that cover all banks take the energy of one all-bank refresh, and precharges of several
// banks end their active standby.
func TestEnergyOfPartialRefreshes(t *testing.T) {
	for name, s := range firstParts(t) {
		ranks := s.Rules().PseudoChannels
		whole := NewEnergyMeter(s, ranks)
		for rank := range int32(ranks) {
			whole.Record(REF, Address{rank, -1, -1, -1, -1}, 0)
		}
		want := whole.Energy(1000).RefreshJoules
		if known := s.Power != (PowerSpec{}); known != (want > 0) {
			t.Errorf("%s: a REF costs %v", name, want)
		}
		for _, r := range s.Rules().Refreshes {
			meter := NewEnergyMeter(s, ranks)
			for rank := range int32(ranks) {
				for bank := range s.Banks() {
					a := Address{rank, int32(bank / s.BanksPerGroup), int32(bank % s.BanksPerGroup), -1, -1}
					if first, _, _ := s.Spanned(r.Command, a); first == bank {
						meter.Record(r.Command, a, 0)
					}
				}
			}
			if got := meter.Energy(1000).RefreshJoules; !near(got, want) {
				t.Errorf("%s: %v of all banks costs %v, REF %v", name, r.Command, got, want)
			}
		}
	}
	s := firstParts(t)["ddr5"]
	meter := NewEnergyMeter(s, 1)
	for group := range int32(s.BankGroups) {
		meter.Record(ACT, Address{0, group, 1, 7, -1}, 100)
	}
	meter.Record(PREsb, Address{0, -1, 1, -1, -1}, 400)
	p := s.Power
	shared := (p.IDD3N + p.IDD2N) / 2 // one open bank already draws half of what all open banks add
	milliamperes := float64(shared*300) + float64((p.IDD3N-shared)*300*float64(s.BankGroups)/float64(s.Banks())) + float64(p.IDD2N*700)
	if want := p.VDD * 1e-3 * float64(s.Chips()) * s.TCK.Seconds() * milliamperes; !near(meter.Energy(1000).BackgroundJoules, want) {
		t.Errorf("background %v, want %v", meter.Energy(1000).BackgroundJoules, want)
	}
}
