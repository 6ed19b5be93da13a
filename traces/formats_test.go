package traces

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/units"
)

// drawTrace draws a trace, with conversations if turns is set, whose times a format can represent.
func drawTrace(t *rapid.T, f *format, turns bool) *Trace {
	grid := f.resolution
	if f.name == "parquet" {
		grid = units.Microsecond // a float64 holds no more digits of 106 days
	}
	tokens := rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(1, 3000))
	gap := func(name string) units.Duration {
		span := rapid.SampledFrom([]int64{0, 1, 1000, int64(units.Duration(100_000*units.Second) / grid)}).Draw(t, name+" range")
		return grid * units.Duration(rapid.Int64Range(0, span).Draw(t, name))
	}
	trace := &Trace{Name: "f", Format: f.name}
	start := units.Duration(0)
	for s := range rapid.IntRange(1, 12).Draw(t, "conversations") {
		calls := 1
		if turns {
			calls = rapid.IntRange(1, 4).Draw(t, "turns")
		}
		at, waits := start, (!f.sessions || f.waits) && rapid.Bool().Draw(t, "waits")
		for k := range calls {
			r := Request{Arrival: at, Input: tokens.Draw(t, "input"), Output: tokens.Draw(t, "output")}
			if calls > 1 {
				r.Turn = &Turn{Session: s}
			}
			if k > 0 {
				think := gap("think")
				at += think
				if r.Arrival = at; waits {
					r.Turn.Waits, r.Turn.Think = true, think
				}
			}
			if f.hashes && rapid.Bool().Draw(t, "hashed") {
				for range (r.Input + BlockTokens - 1) / BlockTokens {
					r.Hashes = append(r.Hashes, rapid.Uint64().Draw(t, "hash"))
				}
			}
			trace.Requests = append(trace.Requests, r)
		}
		start += gap("gap")
	}
	trace.normalize()
	return trace
}

// TestRoundTrips: a trace that a format can represent is read as it was written, compressed or not, and nothing is reported lost.
func TestRoundTrips(t *testing.T) {
	for i := range formats {
		f := &formats[i]
		t.Run(f.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want := drawTrace(t, f, f.sessions)
				if lost, err := want.Lost(f.name); lost != nil || err != nil {
					t.Fatalf("%v is lost, %v", lost, err)
				}
				var text bytes.Buffer
				if err := want.Write(&text, f.name); err != nil {
					t.Fatal(err)
				}
				packed := text.Bytes()
				switch rapid.IntRange(0, 2).Draw(t, "packed") {
				case 1:
					packed = zip(t, packed)
				case 2:
					packed = zipStandard(t, packed)
				}
				got, err := readFirst("f", bytes.NewReader(packed), 0)
				if err != nil || !same(got.Requests, want.Requests) || got.Format != f.name || got.Unordered > 0 {
					t.Fatalf("got  %+v, %v\nwant %+v\n%s", got, err, want, text.Bytes())
				}
			})
		})
	}
}

// zipStandard compresses a text with zstd.
func zipStandard(t interface{ Fatal(...any) }, text []byte) []byte {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(text, nil)
}

// TestRounding: times are rounded to the nearest one that a format can represent, and what it cannot hold is reported.
func TestRounding(t *testing.T) {
	trace := &Trace{Requests: []Request{
		{Input: 600, Output: 2, Hashes: []uint64{1, 2}, Turn: &Turn{}},
		{ID: 1, Arrival: 1_000_149_999, Input: 700, Output: 4, Turn: &Turn{Number: 1, Waits: true, Think: 5}},
		{ID: 2, Arrival: 1_000_150_501, Input: 5, Output: 6},
	}}
	for name, want := range map[string]struct {
		at   []units.Duration
		lost string
	}{
		"jsonl":    {[]units.Duration{0, 1_000_149_999, 1_000_150_501}, "hashes of prefixes, conversations"},
		"l3sim":    {[]units.Duration{0, 1_000_149_999, 1_000_150_501}, "hashes of prefixes, conversations"},
		"mooncake": {[]units.Duration{0, 1_000_149_999, 1_000_150_501}, ""},
		"aiperf":   {[]units.Duration{0, 1_000_150_000, 1_000_151_000}, "times of arrival to the last digit, hashes of prefixes, what turns wait for"},
		"parquet":  {[]units.Duration{0, 1_000_150_000, 1_000_151_000}, "times of arrival to the last digit, hashes of prefixes, conversations"},
	} {
		lost, err := trace.Lost(name)
		if err != nil || strings.Join(lost, ", ") != want.lost {
			t.Errorf("%s: %v is lost, %v", name, lost, err)
		}
		var text bytes.Buffer
		if err := trace.Write(&text, name); err != nil {
			t.Fatal(err)
		}
		got, err := readFirst("f", &text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, at := range want.at {
			if got.Requests[i].Arrival != at {
				t.Errorf("%s: %v, want %v", name, got.Requests[i].Arrival, at)
			}
		}
	}
	if err := trace.Write(&bytes.Buffer{}, "mooncakes"); err == nil || !strings.Contains(err.Error(), `did you mean "mooncake"?`) {
		t.Errorf("got %v", err)
	}
	if _, err := trace.Lost(""); err == nil {
		t.Error("no format is one")
	}
}

// TestParquetEncodings reads columns of every type of number and every encoding that a writer may choose, in several row groups.
func TestParquetEncodings(t *testing.T) {
	type whole struct {
		Other  string  `parquet:"model,optional,dict"`
		Output *int32  `parquet:"out,optional,dict"`
		Input  float64 `parquet:"in,gzip"`
		At     int64   `parquet:"at,delta,zstd,timestamp"`
		List   []int64 `parquet:"list"`
	}
	n := int32(9)
	var rows []whole
	for i := range 3000 {
		rows = append(rows, whole{fmt.Sprint(i % 3), &n, float64(1_000_000 + i), 1_700_000_000_000 + 250*int64(i), []int64{1, 2, 3}[:i%4]})
	}
	var file bytes.Buffer
	w := parquet.NewGenericWriter[whole](&file, parquet.MaxRowsPerRowGroup(700), parquet.PageBufferSize(2000))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	named := Options{Columns: Columns{Arrival: "at", Input: "in", Output: "out", Unit: "ms"}}
	trace, err := named.Read("f", bytes.NewReader(file.Bytes()))
	if err != nil || len(trace.Requests) != 3000 {
		t.Fatal(err)
	}
	for i, r := range trace.Requests {
		if r.Arrival != 250*units.Millisecond*units.Duration(i) || r.Input != 1_000_000+i || r.Output != 9 {
			t.Fatalf("request %d: %+v", i, r)
		}
	}
	named.Requests = 701
	if trace, err := named.Read("f", bytes.NewReader(file.Bytes())); err != nil || len(trace.Requests) != 701 {
		t.Errorf("the first 701: %v", err)
	}
	// Read from a path, only the columns that are needed are read.
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, file.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	named.Requests = 0
	if trace, err := named.Load(path); err != nil || len(trace.Requests) != 3000 || trace.Format != "parquet" {
		t.Error(err)
	}
	for columns, want := range map[Columns]string{
		{Input: "in", Output: "model"}:            "f: model: expected a column of numbers",
		{Input: "list", Output: "out"}:            "f: list: expected a column of numbers",
		{Input: "inn", Output: "out"}:             `f: expected a column inn, or the file's own names in --columns; did you mean "in"?`,
		{Arrival: "a", Input: "in", Output: "in"}: `f: expected a column a, or the file's own names`,
		{}: "f: expected a column num_prefill_tokens",
	} {
		if _, err := (Options{Columns: columns}).Read("f", bytes.NewReader(file.Bytes())); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", columns, err, want)
		}
	}
	for cut := range 40 {
		text := file.Bytes()[:file.Len()-1-cut*cut*20]
		if _, err := named.Read("f", bytes.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), "f: not Parquet: ") {
			t.Errorf("cut short: got %v", err)
		}
	}
	// A row without a length, which the error names by its number.
	rows[1500].Output = nil
	file.Reset()
	w.Reset(&file)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := named.Read("f", bytes.NewReader(file.Bytes())); err == nil || !strings.HasPrefix(err.Error(), "f:1501: out = null: expected a whole number") {
		t.Errorf("got %v", err)
	}
	named.SkipBad = true
	if trace, err := named.Read("f", bytes.NewReader(file.Bytes())); err != nil || len(trace.Requests) != 2999 || trace.Skipped != 1 {
		t.Errorf("%v", err)
	}
}

// TestLongColumns: columns with more values than one read takes.
func TestLongColumns(t *testing.T) {
	want := &Trace{Requests: make([]Request, 5*parquetBatch+3)}
	for i := range want.Requests {
		want.Requests[i] = Request{ID: i, Arrival: units.Duration(i) * units.Millisecond, Input: 1 + i, Output: 1 + i%7}
	}
	var file bytes.Buffer
	if err := want.Write(&file, "parquet"); err != nil {
		t.Fatal(err)
	}
	if got, err := readFirst("f", &file, 0); err != nil || !same(got.Requests, want.Requests) {
		t.Errorf("%d requests, %v", len(got.Requests), err)
	}
}

// TestUnion: no two formats have the same columns, so that a header identifies the format.
func TestUnion(t *testing.T) {
	for _, tables := range [][]table{csvTables, jsonTables} {
		seen := map[string]string{} // the format of each name
		for _, f := range tables {
			if f.mark != "" {
				continue
			}
			for _, name := range []string{f.input, f.output} {
				if of, ok := seen[name]; ok && of != f.format {
					t.Errorf("%s and %s have %s", of, f.format, name)
				}
				seen[name] = f.format
			}
		}
	}
	if !slices.IsSorted(FormatNames()) {
		t.Error("formats are not in order")
	}
}

// TestParquetDamage: a Parquet file with some bytes changed gives an input.Error or a trace, never a panic.
func TestParquetDamage(t *testing.T) {
	trace, err := Load("testdata/plain.csv", 0)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := trace.Write(&file, "parquet"); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	bad, all := 0, deep.Of(500, 5000, 5000)
	for range all {
		text := bytes.Clone(file.Bytes())
		for range 1 + random.IntN(3) {
			text[len(parquetMagic)+random.IntN(len(text)-len(parquetMagic))] = byte(random.Uint32())
		}
		if _, err := readFirst("f", bytes.NewReader(text), 0); err != nil {
			if bad++; !errors.As(err, new(*input.Error)) {
				t.Fatalf("no input.Error: %v", err)
			}
		}
	}
	if bad < all/5 || bad == all {
		t.Errorf("%d of %d were refused", bad, all)
	}
	// A footer that announces 2^31 groups of rows.
	long := []byte("PAR1\x49\xfc\xff\xff\xff\xff\x07\x00\x08\x00\x00\x00PAR1")
	if _, err := readFirst("f", bytes.NewReader(long), 0); err == nil || err.Error() != "f: not Parquet: a footer of too many elements" {
		t.Errorf("got %v", err)
	}
	deep := "PAR1" + strings.Repeat("\x1c", 100) + strings.Repeat("\x00", 100) + "\xc8\x00\x00\x00PAR1"
	if _, err := readFirst("f", strings.NewReader(deep), 0); err == nil || err.Error() != "f: not Parquet: a footer that nests too deep" {
		t.Errorf("got %v", err)
	}
}

// TestOwnNames: l3sim's own column names are read with any unit, from CSV, JSON lines and Parquet; times that would be ignored are an
// error.
func TestOwnNames(t *testing.T) {
	for text, want := range map[string]units.Duration{
		"output_tokens,arrival_s,input_tokens\n2,1,3\n2,1.5,4\n":                                                                       units.Second / 2,
		"arrival_ms,input_tokens,output_tokens\n0,3,2\n0.5,4,2\n":                                                                      units.Microsecond * 500,
		"arrival_us,input_tokens,output_tokens\n9,3,2\n10,4,2\n":                                                                       units.Microsecond,
		"arrival_ns,input_tokens,output_tokens,outcome\n5,3,2,x\n25,4,2,\n":                                                            20 * units.Nanosecond,
		"input_tokens,output_tokens\n3,2\n4,2\n":                                                                                       0,
		`{"input_tokens": 3, "output_tokens": 2, "arrival_us": 1}` + "\n" + `{"arrival_us": 4, "input_tokens": 4, "output_tokens": 2}`: 3 * units.Microsecond,
		`{"input_tokens": 3, "output_tokens": 2}` + "\n" + `{"input_tokens": 4, "output_tokens": 2}`:                                   0,
	} {
		trace, err := readFirst("f", strings.NewReader(text), 0)
		if err != nil || len(trace.Requests) != 2 || trace.Requests[1].Arrival != want || trace.Requests[1].Input != 4 {
			t.Errorf("%+v, %v, want %v of\n%s", trace, err, want, text)
		}
	}
	type row struct {
		Input  int64   `parquet:"input_tokens"`
		Output int64   `parquet:"output_tokens"`
		At     float64 `parquet:"arrival_ms"`
	}
	var file bytes.Buffer
	w := parquet.NewGenericWriter[row](&file)
	if _, err := w.Write([]row{{3, 2, 1}, {4, 2, 1.25}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if trace, err := readFirst("f", &file, 0); err != nil || trace.Requests[1].Arrival != 250*units.Microsecond {
		t.Errorf("%+v, %v", trace, err)
	}
	for text, want := range map[string]string{
		"arrival_s,input_tokens\n3,2\n":                             `f:1: expected a column output_tokens`,
		"arrival_s,input_tokens,output_tokens,arrival_s\n1,2,3,4\n": `f:1: arrival_s: expected one column of this name`,
		`{"arrival_ms": 1, "input_tokens": 3, "output_tokens": 2}` + "\n" + `{"input_tokens": 3, "output_tokens": 2}`: `f:2: no arrival_ms; expected arrival_ms, input_tokens and output_tokens`,
	} {
		if _, err := readFirst("f", strings.NewReader(text), 0); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	// If the user names the columns of lengths, an unnamed column of times is no error.
	if _, err := (Options{Columns: Columns{Input: "input_tokens", Output: "output_tokens"}}).Read("f", strings.NewReader("input_tokens,output_tokens,arrival\n3,2,1\n")); err != nil {
		t.Error(err)
	}
}
