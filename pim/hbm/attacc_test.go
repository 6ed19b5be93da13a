package hbm

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// rows returns the rows of a file of testdata, by column.
func rows(t *testing.T, name string) []map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]string
	for _, cells := range all[1:] {
		row := map[string]string{}
		for i, c := range cells {
			row[all[0][i]] = c
		}
		list = append(list, row)
	}
	return list
}

// attaccRun is the spec and load of a row of attacc_cycles.csv.
func attaccRun(t *testing.T, row map[string]string) (Spec, Load) {
	t.Helper()
	n := func(key string) int {
		v, err := strconv.Atoi(row[key])
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	gbps, err := strconv.ParseFloat(row["gbps"], 64)
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{Rules: AttAcc, Rate: int(math.Round(gbps * 1000)), PowerLimited: n("power_limited") == 1, NoRefresh: n("refresh") == 0}
	return spec, StackLoad(Shape{n("dhead"), n("bytes_per_value")}, n("context"), n("heads_per_stack"))
}

// TestAttAccCycles: by AttAcc's rules every run takes the cycles of its simulator, with the same commands.
func TestAttAccCycles(t *testing.T) {
	counts := map[string]dram.Command{"act": dram.ACTA, "mac": dram.MACA, "prea": dram.PREA, "wrgb": dram.WRGB, "mvsb": dram.MVSB, "mvgb": dram.MVGB,
		"sfm": dram.SFM, "refab": dram.REF}
	n := 0
	for _, row := range rows(t, "attacc_cycles.csv") {
		if row["level"] != "bank" {
			continue
		}
		n++
		spec, load := attaccRun(t, row)
		run, err := Measure(spec, load, nil)
		if err != nil {
			t.Fatal(err)
		}
		if strconv.FormatInt(run.Clocks, 10) != row["cycles"] {
			t.Errorf("%+v, %+v: %d clocks, expected %s", spec, load, run.Clocks, row["cycles"])
		}
		for name, c := range counts {
			if strconv.FormatInt(run.Commands[c], 10) != row[name] {
				t.Errorf("%+v, %+v: %d %v, expected %s", spec, load, run.Commands[c], c, row[name])
			}
		}
	}
	if n < 60 {
		t.Errorf("%d runs", n)
	}
}

// issue is a command of a log.
type issue struct {
	clock   int64
	command dram.Command
	address dram.Address
}

// TestAttAccLogs: each command issues in the clock of AttAcc's log, at its address.
func TestAttAccLogs(t *testing.T) {
	names := map[string]dram.Command{"ACTAB": dram.ACTA, "PREA": dram.PREA, "REFab": dram.REF, "MACAB": dram.MACA, "WRGB": dram.WRGB, "MVSB": dram.MVSB,
		"MVGB": dram.MVGB, "SFM": dram.SFM}
	for _, log := range []struct {
		file           string
		context, heads int
		limited        bool
	}{
		{"bank_L128_heads16_pc_ref.csv", 128, 16, true}, {"bank_L512_heads16_npc_ref.csv", 512, 16, false},
		{"bank_L1024_heads32_pc_ref.csv", 1024, 32, true}, {"bank_L1024_heads48_pc_ref.csv", 1024, 48, true},
	} {
		want := map[issue]int{}
		for _, row := range rows(t, log.file) {
			var v [6]int64
			for i, key := range []string{"cycle", "rank", "bankgroup", "bank", "row", "column"} {
				v[i], _ = strconv.ParseInt(row[key], 10, 64)
			}
			i := issue{v[0], names[row["command"]], dram.Address{Rank: int32(v[1]), BankGroup: int32(v[2]), Bank: int32(v[3]), Row: int32(v[4]), Column: int32(v[5])}}
			want[i.place()]++
		}
		_, err := Measure(Spec{Rules: AttAcc, Rate: 5200, PowerLimited: log.limited}, StackLoad(Shape{128, 2}, log.context, log.heads),
			func(clock int64, cmd dram.Command, a dram.Address) { want[issue{clock, cmd, a}.place()]-- })
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range want {
			if n != 0 {
				t.Errorf("%s: %d more than ours of %v at %d, %+v", log.file, n, i.command, i.clock, i.address)
			}
		}
	}
}

// place leaves of the address what the command is about: AttAcc's log also names a bank of commands to all.
func (i issue) place() issue {
	a := dram.Address{Rank: -1, BankGroup: -1, Bank: -1, Row: -1, Column: -1}
	switch i.command {
	case dram.ACTA:
		a.Row = i.address.Row
	case dram.MACA:
		a.Row, a.Column = i.address.Row, i.address.Column
	case dram.WRGB, dram.MVSB, dram.MVGB:
		a.Rank, a.BankGroup, a.Bank = i.address.Rank, i.address.BankGroup, i.address.Bank
	}
	i.address = a
	return i
}
