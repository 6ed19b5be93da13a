package hbm

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/deep"
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
	spec := Spec{Level: Level(row["level"]), Rules: AttAcc, Rate: int(math.Round(gbps * 1000)), PowerLimited: n("power_limited") == 1, NoRefresh: n("refresh") == 0}
	return spec, StackLoad(Shape{HeadDim: n("dhead"), ElementBytes: n("bytes_per_value")}, n("context"), n("heads_per_stack"))
}

// TestAttAccCycles: by AttAcc's rules every run takes the cycles of its simulator, with the same commands.
func TestAttAccCycles(t *testing.T) {
	deep.Heavy(t)
	n := map[Level]int{}
	for _, row := range rows(t, "attacc_cycles.csv") {
		spec, load, run := attaccMeasured(t, row)
		n[spec.Level]++
		if strconv.FormatInt(run.Clocks, 10) != row["cycles"] {
			t.Errorf("%+v, %+v: %d clocks, expected %s", spec, load, run.Clocks, row["cycles"])
		}
		for name, c := range attaccCommands(spec.Level) {
			if strconv.FormatInt(run.Commands[c], 10) != row[name] {
				t.Errorf("%+v, %+v: %d %v, expected %s", spec, load, run.Commands[c], c, row[name])
			}
		}
	}
	if n[Bank] != 99 || n[BankGroup] != 18 || n[Buffer] != 9 {
		t.Errorf("runs by level: %v", n)
	}
}

// TestAttAccOtherShapes: 40 random shapes of each level, measured after the programs were written. At the banks all clocks are equal. At
// other levels the simulator's 16 channels, fed by one request stream, may delay each other if some have fewer moves.
func TestAttAccOtherShapes(t *testing.T) {
	deep.Only(t)
	n, equal := map[Level]int{}, map[Level]int{}
	for _, row := range rows(t, "attacc_more.csv") {
		spec, load, run := attaccMeasured(t, row)
		n[spec.Level]++
		cycles, err := strconv.ParseFloat(row["cycles"], 64)
		if err != nil {
			t.Fatal(err)
		}
		if off := math.Abs(float64(run.Clocks)/cycles - 1); off == 0 {
			equal[spec.Level]++
		} else if off > 0.011 {
			t.Errorf("%+v, %+v: %d clocks, expected %s", spec, load, run.Clocks, row["cycles"])
		}
		for name, c := range attaccCommands(spec.Level) {
			want, err := strconv.ParseInt(row[name], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if off := run.Commands[c] - want; off != 0 && (spec.Level != Buffer || off*off > 1) { // a refresh may find one row open or closed
				t.Errorf("%+v, %+v: %d %v, expected %d", spec, load, run.Commands[c], c, want)
			}
		}
	}
	for level, want := range map[Level]int{Bank: 40, BankGroup: 36, Buffer: 33} {
		if n[level] != 40 || equal[level] < want {
			t.Errorf("%s: %d of %d runs take the same cycles, expected %d of 40", level, equal[level], n[level], want)
		}
	}
}

// attaccMeasured runs a row.
func attaccMeasured(t *testing.T, row map[string]string) (Spec, Load, Run) {
	t.Helper()
	spec, load := attaccRun(t, row)
	run, err := Measure(spec, load, nil)
	if err != nil {
		t.Fatal(err)
	}
	return spec, load, run
}

// attaccCommands returns the columns that count commands.
func attaccCommands(level Level) map[string]dram.Command {
	y := layouts[level]
	counts := map[string]dram.Command{"act": y.open, "mac": y.mac, "prea": dram.PREA, "wrgb": dram.WRGB, "mvsb": dram.MVSB, "mvgb": dram.MVGB, "sfm": dram.SFM, "refab": dram.REF}
	if level != Bank {
		counts["pre"] = y.close
	}
	return counts
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
		"MVGB": dram.MVGB, "SFM": dram.SFM, "ACTSB": dram.ACTsb, "PRESB": dram.PREsb, "MACSB": dram.MACsb, "ACTPB": dram.ACT, "PREPB": dram.PRE, "MACPB": dram.MAC}
	for _, log := range []struct {
		file           string
		level          Level
		context, heads int
		limited        bool
	}{
		{"bank_L128_heads16_pc_ref.csv", Bank, 128, 16, true}, {"bank_L512_heads16_npc_ref.csv", Bank, 512, 16, false},
		{"bank_L1024_heads32_pc_ref.csv", Bank, 1024, 32, true}, {"bank_L1024_heads48_pc_ref.csv", Bank, 1024, 48, true},
		{"bg_L128_heads16_pc_ref.csv", BankGroup, 128, 16, true}, {"buffer_L128_heads16_pc_ref.csv", Buffer, 128, 16, true},
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
		_, err := Measure(Spec{Level: log.level, Rules: AttAcc, Rate: 5200, PowerLimited: log.limited}, StackLoad(Shape{HeadDim: 128, ElementBytes: 2}, log.context, log.heads),
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

// place keeps the part of an address that a command uses: AttAcc's log names a bank even for all-bank
// commands.
func (i issue) place() issue {
	a := dram.Address{Rank: -1, BankGroup: -1, Bank: -1, Row: -1, Column: -1}
	switch i.command {
	case dram.ACTA:
		a.Row = i.address.Row
	case dram.MACA:
		a.Row, a.Column = i.address.Row, i.address.Column
	case dram.PREsb:
		a.Bank = i.address.Bank
	case dram.ACTsb:
		a.Bank, a.Row = i.address.Bank, i.address.Row
	case dram.MACsb:
		a.Bank, a.Row, a.Column = i.address.Bank, i.address.Row, i.address.Column
	case dram.MAC:
		a = i.address
	case dram.ACT:
		a = i.address
		a.Column = -1
	case dram.WRGB, dram.MVSB, dram.MVGB, dram.PRE:
		a.Rank, a.BankGroup, a.Bank = i.address.Rank, i.address.BankGroup, i.address.Bank
	}
	i.address = a
	return i
}
