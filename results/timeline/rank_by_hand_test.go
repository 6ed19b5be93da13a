package timeline

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/perfetto"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// slicesOf returns the slices of a timeline: process, track, category, name, start and length in clocks, and the details of a
// selected one.
func slicesOf(t *testing.T, text []byte, clock float64) []string {
	t.Helper()
	events, faults, err := perfetto.Read(bytes.NewReader(text))
	if err != nil || len(faults) > 0 {
		t.Fatal(faults, err)
	}
	names := map[[2]int]string{}
	var got []string
	for _, e := range events {
		on := [2]int{e.Pid, e.Tid}
		switch {
		case e.Name == "thread_name":
			names[on] = e.Args["name"].(string)
		case e.Ph == "X":
			var args []string
			for k, v := range e.Args {
				args = append(args, fmt.Sprint(k, " ", v))
			}
			slices.Sort(args)
			got = append(got, fmt.Sprintf("%d %s (%s): %s at %v for %v: %s", e.Pid, names[on], e.Cat, e.Name, e.Ts/clock, e.Dur/clock, strings.Join(args, ", ")))
		}
	}
	return got
}

// TestRankByHand: the resources that each kind of instruction uses on DDR4-3200, whose clock is 625 ps, shown as 625 ns. A read's data are on the
// bus from clock 22 to 26 after the command. Two multipliers of a chip take two passes over the four elements of a read: 2 x tCCD_L = 16 clocks at
// the banks, 2 x tCCD_S = 8 at the rank. The softmax of 28 clocks begins when the last scores have arrived.
func TestRankByHand(t *testing.T) {
	d, spec := part(t, "ddr4-3200-8gb-x8"), pim.Default()
	spec.SoftmaxLatency, spec.Multipliers = 28, 2
	var text bytes.Buffer
	w := NewWriter(&text)
	r := NewRank(w, spec, d, pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16})
	at := dram.Address{Rank: 0, BankGroup: 1, Bank: 2, Row: 30, Column: 4}
	r.Instruction(100, dram.ACT, at, &machine.Instruction{Op: machine.OpActivate, Head: 5, Token: 6})
	ops := []machine.Operation{machine.OpAppendKey, machine.OpLoadWeights, machine.OpLoadQuery, machine.OpScore, machine.OpReadPartials, machine.OpLoadWeights,
		machine.OpContext, machine.OpReadContext, machine.OpReadScale, machine.OpReadKey, machine.OpReadValue, machine.OpReadValue}
	for i, op := range ops {
		r.Instruction(int64(200+100*i), dram.RD, at, &machine.Instruction{Op: op, Head: 5, Token: int32(60 + i)})
	}
	r.Instruction(1400, dram.PRE, at, &machine.Instruction{Op: machine.OpPrecharge, Head: 7, Token: 8})
	r.Instruction(1500, dram.REF, dram.Address{BankGroup: -1, Bank: -1, Row: -1, Column: -1}, nil)
	r.Close()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	address := "bank 2, bank group 1, clock %d, column 4, does %s, head 5, rank 0, row 30"
	unit := func(on, name string, from, length, clock int, does string, token int) string {
		return fmt.Sprintf("0 %s (unit): %s at %d for %d: "+address+", token %d", on, name, from, length, clock, does, token)
	}
	want := []string{
		unit("buffer unit", "weights", 322, 4, 300, "weights", 61), // no softmax: there are no scores
		unit("buffer unit", "query", 422, 4, 400, "query", 62),
		unit("bank units", "score", 500, 16, 500, "score", 63),
		unit("buffer unit", "partial sums", 622, 4, 600, "partial sums", 64),
		unit("buffer unit", "weights", 722, 4, 700, "weights", 65),
		unit("softmax", "softmax of the last scores", 626, 28, 700, "weights", 65),
		unit("bank units", "context", 800, 16, 800, "context", 66),
		unit("buffer unit", "read context", 922, 4, 900, "read context", 67),
		unit("buffer unit", machine.OpReadScale.String(), 1022, 4, 1000, machine.OpReadScale.String(), 68),
		unit("rank-level unit", "score", 1122, 8, 1100, "score", 69),
		unit("rank-level unit", "context", 1222, 8, 1200, "context", 70),
		unit("softmax", "softmax of the last scores", 1126, 28, 1200, "context", 70),
		unit("rank-level unit", "context", 1322, 8, 1300, "context", 71), // its softmax is done
	}
	var units, others []string
	for _, s := range slicesOf(t, text.Bytes(), 0.625) {
		if strings.Contains(s, "(unit)") {
			units = append(units, s)
		} else if !strings.Contains(s, "RD at") {
			others = append(others, s)
		}
	}
	if !slices.Equal(units, want) {
		t.Errorf("got units\n%s\nwant\n%s", strings.Join(units, "\n"), strings.Join(want, "\n"))
	}
	// Units are shown below the buses and above refreshes and banks: bank units first, then those in the
	// buffer.
	for track, thread := range map[string]int{"command bus": 0, "data bus 0": 10, "bank units": 50, "rank-level unit": 51, "buffer unit": 52, "softmax": 53, "refresh, rank 0": 100, "rank 0, bank 1.2": 1006} {
		if named := fmt.Sprintf(`"tid":%d,"args":{"name":"%s"}`, thread, track); !strings.Contains(text.String(), named) {
			t.Errorf("no track %s", named)
		}
	}
	// An activation and a precharge have no token; a refresh takes tRFC, 350 ns, and has neither bank nor row.
	want = []string{
		"0 command bus (command): ACT at 100 for 1: " + fmt.Sprintf(address, 100, "open"),
		"0 command bus (command): PRE at 1400 for 1: " + strings.Replace(fmt.Sprintf(address, 1400, "close"), "head 5", "head 7", 1),
		"0 rank 0, bank 1.2 (bank): row 30 at 100 for 1300: row 30",
		"0 command bus (command): REF at 1500 for 1: clock 1500, rank 0",
		"0 refresh, rank 0 (refresh): REF at 1500 for 560: clock 1500, rank 0",
	}
	if !slices.Equal(others, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(others, "\n"), strings.Join(want, "\n"))
	}
}

// TestTracksByHand: tracks of the second and third of four ranks of DDR4 (16 banks in four groups), on one data bus, in the process
// of the channel. A read of 4 clocks ends the row that is open at the end; columns are shown for tRTP at most.
func TestTracksByHand(t *testing.T) {
	var text bytes.Buffer
	w := NewWriter(&text)
	c := NewCommands(w, 3, "channel", part(t, "ddr4-3200-8gb-x8"), 4)
	for i, rank := range []int32{1, 2} {
		at := dram.Address{Rank: rank, BankGroup: 3, Bank: rank, Row: 7, Column: 5}
		c.Command(int64(100*i), dram.ACT, at, nil)
		c.Command(int64(100*i+50), dram.RD, at, Args{"request": 9})
	}
	c.Command(600, dram.REF, dram.Address{Rank: 3, BankGroup: -1, Bank: -1, Row: -1, Column: -1}, nil)
	c.Close()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), `"channel (1 ns shown is 1 ps)"`) {
		t.Error("the process has no name")
	}
	var got []string
	for _, s := range slicesOf(t, text.Bytes(), 0.625) {
		if !strings.Contains(s, "command bus") {
			got = append(got, s)
		}
	}
	read := func(clock, rank int) string {
		return fmt.Sprintf(": bank %d, bank group 3, clock %d, column 5, rank %d, request 9, row 7", rank, clock, rank)
	}
	want := []string{
		"3 rank 1, bank 3.1 (column): RD at 50 for 4" + read(50, 1), "3 data bus 0 (data): RD at 72 for 4" + read(50, 1),
		"3 rank 2, bank 3.2 (column): RD at 150 for 4" + read(150, 2), "3 data bus 0 (data): RD at 172 for 4" + read(150, 2),
		"3 refresh, rank 3 (refresh): REF at 600 for 560: clock 600, rank 3",
		"3 rank 1, bank 3.1 (bank): row 7 at 0 for 1160: row 7", "3 rank 2, bank 3.2 (bank): row 7 at 100 for 1060: row 7",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestPhasesOfArrows: the first end of a chain is a start, the last a finish, the others steps; chains are numbered from 1.
func TestPhasesOfArrows(t *testing.T) {
	var text bytes.Buffer
	w := NewWriter(&text)
	for i := range 2 {
		var chain []Place
		for j := range 3 + i {
			chain = append(chain, Place{Track{7 + j, 20 + i}, 2_000_000, 3_000_000})
		}
		w.Arrows("all", chain)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	events, _, _ := perfetto.Read(strings.NewReader(strings.Replace(text.String(), "[", `[{"ph":"X","name":"any"},`, 1)))
	got := ""
	for _, e := range events[1:] {
		got += fmt.Sprintf("%s%d %s %s %d.%d at %g; ", e.Ph, e.ID, e.Bp, e.Cat, e.Pid, e.Tid, e.Ts)
		if e.Name != "all" {
			t.Errorf("an arrow of %q", e.Name)
		}
	}
	if want := "s1 e arrow 7.20 at 2; t1 e arrow 8.20 at 2; f1 e arrow 9.20 at 2; s2 e arrow 7.21 at 2; t2 e arrow 8.21 at 2; t2 e arrow 9.21 at 2; f2 e arrow 10.21 at 2; "; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestTracksOfPseudoChannels: HBM2 has one command bus for rows and one for columns, and a data bus for each of two pseudo channels, which have two of the four ranks
// each.
func TestTracksOfPseudoChannels(t *testing.T) {
	var text bytes.Buffer
	w := NewWriter(&text)
	c := NewCommands(w, 3, "channel 3", part(t, "hbm2-2000-8gb-4h"), 4)
	for rank := range int32(4) {
		at := dram.Address{Rank: rank, BankGroup: 1, Bank: 2, Row: 7, Column: 5}
		c.Command(int64(100*rank), dram.ACT, at, nil)
		c.Command(int64(100*rank+50), dram.RD, at, nil)
	}
	c.Close()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	events, _, err := perfetto.Read(&text)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		switch {
		case e.Ph == "M" && e.Name != "thread_sort_index":
			got = append(got, fmt.Sprintf("%d.%d is %s", e.Pid, e.Tid, e.Args["name"]))
		case e.Cat == "data" || e.Cat == "command":
			got = append(got, fmt.Sprintf("%d.%d %s", e.Pid, e.Tid, e.Name))
		}
	}
	want := []string{"3.0 is channel 3 (1 ns shown is 1 ps)", "3.0 is row bus", "3.0 ACT", "3.1006 is rank 0, bank 1.2", "3.1 is column bus", "3.1 RD", "3.10 is data bus 0", "3.10 RD",
		"3.0 ACT", "3.1022 is rank 1, bank 1.2", "3.1 RD", "3.10 RD", "3.0 ACT", "3.1038 is rank 2, bank 1.2", "3.1 RD", "3.11 is data bus 1", "3.11 RD", "3.0 ACT", "3.1054 is rank 3, bank 1.2", "3.1 RD", "3.11 RD"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
