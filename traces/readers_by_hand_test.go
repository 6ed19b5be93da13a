package traces

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestReadersByHand: what readers accept and refuse at the limits of their formats.
func TestReadersByHand(t *testing.T) {
	const one, two = `{"input_tokens": 3, "output_tokens": 1}`, `{"input_tokens": 4, "output_tokens": 1}`
	for _, c := range []struct {
		text string
		o    Options
		want string
	}{
		// Arrays.
		{" \n [" + one + "," + two + "]", Options{}, "l3sim; 3@0 4@0;  "},
		{"[" + one + "," + two + ", x", Options{Requests: 1}, "l3sim; 3@0;  "},
		{"[" + one + "," + two, Options{}, "error f:1: "},
		{"[" + one + "," + two + ", {", Options{}, "error f:1: "},
		{"[" + one + `, {"input_tokens": -4, "output_tokens": 1}]`, Options{}, "error f:1: "},
		{"[" + one + `, {"input_tokens": -4, "output_tokens": 1}, ` + two + "]", Options{SkipBad: true}, "l3sim; 3@0 4@0;   skipped 1"},
		// A dotted name where the outer field is no object, and where it is a field of that very name.
		{`{"usage": 5, "in": 3, "out": 1}`, Options{Columns: Columns{Input: "usage.in", Output: "out"}}, "error f:1: "},
		{`{"time": {"x": 7}, "input_tokens": 3, "output_tokens": 1}`, Options{}, "l3sim; 3@0;  "},
		// Failed requests, with a time and without.
		{`{"metadata": {"request_start_ns": 5}, "metrics": {"input_sequence_length": {"value": 3}, "output_sequence_length": {"value": 1}}}` + "\n" +
			`{"metadata": {}, "error": {"code": 500}}` + "\n" +
			`{"metadata": {"request_start_ns": 7}, "metrics": {"input_sequence_length": {"value": 3}}, "error": {"code": 500}}`, Options{}, "aiperf; 3@0; metadata.request_start_ns nanoseconds failed 2"},
		// Turns that wait: the first one does not, and those with a time of their own come then.
		{`{"session_id": "b", "timestamp": 0, "input_length": 3, "output_length": 1}` + "\n" +
			`{"session_id": "a", "delay": 5000, "timestamp": 1000, "input_length": 4, "output_length": 1}` + "\n" +
			`{"session_id": "a", "delay": 250, "timestamp": 9000, "input_length": 5, "output_length": 1}` + "\n" +
			`{"session_id": "a", "delay": 2000, "input_length": 6, "output_length": 1}`, Options{}, "mooncake; 3@0 4@1/0.0 5@9/0.1+0.25 6@11/0.2+2; timestamp milliseconds"},
		{`{"session_id": "b", "timestamp": 0, "input_length": 3, "output_length": 1}` + "\n" +
			`{"session_id": "a", "delay": 5000, "input_length": 4, "output_length": 1}`, Options{}, "mooncake; 3@0 4@0; timestamp milliseconds"},
		{`{"session_id": "a", "input_length": 3, "output_length": 1, "delay": 1e18}`, Options{}, "error f:1: delay = 1e18: expected milliseconds, not negative"},
		// Columns named by the user.
		{"who,a,b\nx,3,1\nx,4,1\n", Options{Columns: Columns{Input: "a", Output: "b", Session: "who"}}, "csv; 3@0/0.0 4@0/0.1;  "},
		{`{"timestamp": 5, "timestamp_unit": "ms", "hash_ids": [1], "block_size": 64, "input_length": 3, "output_length": 1}`, Options{Columns: Columns{Block: 32}}, "mooncake; 3@0; timestamp milliseconds 32"},
		{`{"timestamp": 5, "hash_ids": [1], "block_size": 1, "input_length": 1, "output_length": 1}`, Options{}, "mooncake; 1@0; timestamp milliseconds 1"},
		{`{"timestamp": 0, "timestamp_unit": "us", "input_length": 3, "output_length": 1}` + "\n" + `{"timestamp": 5, "input_length": 4, "output_length": 1}`, Options{}, "mooncake; 3@0 4@5e-06; timestamp microseconds"},
		{`{"timestamp": 0, "timestamp_unit": "days", "input_length": 3, "output_length": 1}` + "\n" + `{"timestamp": 5, "input_length": 4, "output_length": 1}`, Options{}, "mooncake; 3@0 4@0.005; timestamp milliseconds"},
		{`{"at": 0, "timestamp_unit": "us", "in": 3, "out": 1}` + "\n" + `{"at": 5, "in": 4, "out": 1}`, Options{Columns: Columns{Arrival: "at", Input: "in", Output: "out", Unit: "s"}}, "jsonl; 3@0 4@5; at seconds"},
		// Lines that look like a header and are none.
		{"2026-01-02 03:04:05,7,8\n", Options{}, "error f:1: \"2026-01-02 03:04:05,7,8\": expected a first line that names the columns"},
		{"when,7,8\n", Options{}, "error f:1: \"when,7,8\": expected a header with the columns of a known format"},
		// Named columns of times: seconds since 1970, and milliseconds, told by their size.
		{"at,a,b\n1700000000000,3,1\n1700000000500,4,1\n", Options{Columns: Columns{Arrival: "at", Input: "a", Output: "b"}}, "csv; 3@0 4@0.5; at milliseconds: arrivals in at are read as milliseconds since 1970, by their size"},
		{"at,a,b\n0,3,1\n4000,4,1\n", Options{Columns: Columns{Arrival: "at", Input: "a", Output: "b"}}, "csv; 3@0 4@4000; at seconds: arrivals in at are read as seconds, since --columns gives no unit"},
		{"at,a,b\n0,3,1\n4,4,1\n", Options{Columns: Columns{Arrival: "at", Input: "a", Output: "b"}}, "csv; 3@0 4@4; at seconds"},
		{"thing,input_tokens,output_tokens\n2026-01-02 03:04:05,3,1\n", Options{}, "l3sim; 3@0;  "},
		{"thing,input_tokens,output_tokens\n2026-01-02 03:04:05,3,1\n2026-01-02 03:04:06,3,1\n", Options{}, "l3sim; 3@0 3@0;  : no column is known to hold arrivals, so all requests come at once; thing may"},
		// Rates of vLLM's benchmark.
		{`{"request_rate": "inf", "input_lens": [64], "output_lens": [9]}`, Options{}, "vllm; 64@0;  "},
		{`{"request_rate": 0, "input_lens": [64], "output_lens": [9]}`, Options{}, "vllm; 64@0;  "},
		{`{"request_rate": -1, "input_lens": [64], "output_lens": [9]}`, Options{}, "vllm; 64@0;  "},
		{`{"request_rate": 4, "input_lens": [64], "output_lens": [9], "start_times": [3.5]}`, Options{}, "vllm; 64@0; start_times seconds"},
	} {
		trace, err := c.o.Read("f", strings.NewReader(c.text))
		got := ""
		if err != nil {
			got = "error " + err.Error()
		} else if got = readBack(trace); true {
			if trace.Skipped > 0 {
				got += " skipped " + strconv.Itoa(trace.Skipped)
			}
			if trace.Failed > 0 {
				got += " failed " + strconv.Itoa(trace.Failed)
			}
			if len(trace.Notes) > 0 {
				got += ": " + strings.Join(trace.Notes, "\n")
			}
		}
		if !strings.HasPrefix(got, c.want) || err == nil && !strings.Contains(c.want, ": ") && got != c.want {
			t.Errorf("%.400s\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}

// TestUnitsOfLateTimes: if none of the rows that are sampled has a time, the unit in the column's name counts.
func TestUnitsOfLateTimes(t *testing.T) {
	var late strings.Builder // more turns without times than are sampled, then one with a time
	late.WriteString(`{"created_at_ms": null, "session_id": "a", "delay": 0, "input_tokens": 3, "output_tokens": 1}` + "\n")
	for range sampleRows {
		late.WriteString(`{"session_id": "a", "delay": 0, "input_tokens": 3, "output_tokens": 1}` + "\n")
	}
	late.WriteString(`{"created_at_ms": 5000, "session_id": "b", "input_tokens": 4, "output_tokens": 1}` + "\n")
	trace, err := Options{}.Read("f", strings.NewReader(late.String()))
	if err != nil || trace.Reading.Unit != "milliseconds" || trace.Requests[len(trace.Requests)-1].Arrival != 5*units.Second || len(trace.Notes) > 0 {
		t.Errorf("%+v, %v", trace, err)
	}
}

// TestColumnsByHand: block sizes that Columns accepts.
func TestColumnsByHand(t *testing.T) {
	for text, want := range map[string]int{"block=1": 1, "block=1048576": 1048576, "block=0": 0, "block=-1": 0, "block=x": 0, "block=1048577": 0} {
		if c, err := ParseColumns(text); (err == nil) != (want > 0) || c.Block != want && err == nil {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}

// TestDatesByHand: spellings of the same minute, and texts that are no dates.
func TestDatesByHand(t *testing.T) {
	const minute = 1767323040 // 2026-01-02T03:04:00Z
	for text, want := range map[string]int64{
		"2026-01-02 03:04": minute, "2026/01/02 03:04:07": minute + 7, "2026-01-02t03:04:07": minute + 7, "2026-01-02T03:04:07 UTC": minute + 7, "2026-01-02 03:04:07 +01:00": minute - 3593,
		"": 0, "2026-01-02": 0, "2026": 0, "2026-01-02 03": 0, "2026_01_02 03:04": 0, "2026-01/02 03:04": 0, "2026/01-02 03:04": 0, "2026-01-02_03:04": 0, "2026-13-02 03:04": 0, "1234567890123456": 0,
	} {
		if got, ok := parseTimestamp(text); ok != (want > 0) || got.seconds != want || got.picoseconds != 0 {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
}

// faulty is a file whose reads end with an error.
type faulty struct {
	*bytes.Reader
	err error
	at  int64 // reads from here on fail
}

func (f faulty) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.Reader.ReadAt(p, off)
	if off >= f.at {
		err = f.err
	}
	return n, err
}

// TestFootersByHand: a file has at least 12 bytes; a disk's error is reported, and the end of the file is not an error.
func TestFootersByHand(t *testing.T) {
	bad := errors.New("bad disk")
	const least = "PAR1\x00\x01\x00\x00\x00PAR1" // an empty struct
	for _, c := range []struct {
		text string
		err  error
		at   int64
		want error
	}{{least, nil, 99, nil}, {least, io.EOF, 0, nil}, {least, bad, 0, bad}, {least, bad, 5, bad}, {least, bad, 6, nil}, {"", nil, 99, io.ErrUnexpectedEOF}, {"\x00\x00\x00\x00PAR1", nil, 99, io.ErrUnexpectedEOF}, {"xxx\x00\x00\x00\x00PAR1", nil, 99, io.ErrUnexpectedEOF}} {
		if err := checkFooter(faulty{bytes.NewReader([]byte(c.text)), c.err, c.at}, int64(len(c.text))); err != c.want {
			t.Errorf("%q: %v, want %v", c.text, err, c.want)
		}
	}
	for _, text := range []string{"", "\x80", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		w := walker{text: []byte(text)}
		if w.varint() != 0 || w.err != io.ErrUnexpectedEOF {
			t.Errorf("%q: %v", text, w.err)
		}
	}
	w := walker{text: []byte{0xac, 0x02, 7}}
	if got := w.varint(); got != 300 || len(w.text) != 1 || w.err != nil {
		t.Errorf("%d, %v", got, w)
	}
}

// TestParquetNamesByHand: groups and lists are no columns of times, whatever their names, and a file without rows is reported.
func TestParquetNamesByHand(t *testing.T) {
	type group struct {
		At struct {
			X int64 `parquet:"x"`
		} `parquet:"created_at"`
		Input  int32 `parquet:"prompt_tokens"`
		Output int32 `parquet:"completion_tokens"`
	}
	type list struct {
		At     []int64 `parquet:"created_at"`
		Input  int32   `parquet:"prompt_tokens"`
		Output int32   `parquet:"completion_tokens"`
	}
	type plain struct {
		At     bool  `parquet:"created_at"`
		Input  int32 `parquet:"prompt_tokens"`
		Output int32 `parquet:"completion_tokens"`
	}
	var a, b, c, d bytes.Buffer
	if err := errors.Join(parquet.Write(&a, []group{{Input: 3, Output: 1}, {Input: 4, Output: 1}}), parquet.Write(&b, []list{{At: []int64{5}, Input: 3, Output: 1}, {Input: 4, Output: 1}}),
		parquet.Write(&c, []group{}), parquet.Write(&d, []plain{{true, 3, 1}})); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{a.String(), b.String()} {
		trace, err := Options{}.Read("f", strings.NewReader(text))
		if err != nil || readBack(trace) != "parquet; 3@0 4@0;  " || len(trace.Notes) > 0 {
			t.Errorf("%v, %v", trace, err)
		}
	}
	for text, want := range map[string]string{c.String(): "request", d.String(): "created_at: expected a column of numbers"} {
		if trace, err := (Options{}).Read("f", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %s", trace, err, want)
		}
	}
}

// TestParquetTimesByHand: if a name does not clearly say that a column has times, its first rows decide. A unit in the column's type
// overrides the one in its name.
func TestParquetTimesByHand(t *testing.T) {
	type weak struct {
		At     int64 `parquet:"time"`
		Input  int32 `parquet:"prompt_tokens"`
		Output int32 `parquet:"completion_tokens"`
	}
	type typed struct {
		At     int64 `parquet:"created_at_ms,timestamp(microsecond)"`
		Input  int32 `parquet:"prompt_tokens"`
		Output int32 `parquet:"completion_tokens"`
	}
	type untyped struct {
		At     int64 `parquet:"created_at_ms"`
		Input  int32 `parquet:"prompt_tokens"`
		Output int32 `parquet:"completion_tokens"`
	}
	var rising, falling, micros, millis bytes.Buffer
	if err := errors.Join(parquet.Write(&rising, []weak{{0, 3, 1}, {250, 4, 1}, {500, 5, 1}, {1250, 6, 1}}), parquet.Write(&falling, []weak{{1250, 3, 1}, {500, 4, 1}, {250, 5, 1}, {0, 6, 1}}),
		parquet.Write(&micros, []typed{{0, 3, 1}, {5_000_000, 4, 1}}), parquet.Write(&millis, []untyped{{0, 3, 1}, {5000, 4, 1}})); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"times that rise by hundreds", rising.String(), "parquet; 3@0 4@0.25 5@0.5 6@1.25; time milliseconds?"},
		{"numbers that fall", falling.String(), "parquet; 3@0 4@0 5@0 6@0;  "},
		{"the unit of the type", micros.String(), "parquet; 3@0 4@5; created_at_ms microseconds"},
		{"the unit of the name", millis.String(), "parquet; 3@0 4@5; created_at_ms milliseconds"},
	} {
		if trace, err := (Options{}).Read("f", strings.NewReader(c.text)); err != nil || readBack(trace) != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, readBack(trace), err, c.want)
		}
	}
}

// TestFoldersAreRead: in the folder of a run, the file of its requests is read.
func TestFoldersAreRead(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, RequestsFile), []byte("arrival_s,input_tokens,output_tokens\n1,3,1\n3,4,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	trace, err := Options{}.Load(folder)
	if err != nil || readBack(trace) != "l3sim; 3@0 4@2; arrival_s seconds" {
		t.Errorf("%v, %v", trace, err)
	}
	if trace, err := (Options{}).Load(t.TempDir()); err == nil {
		t.Errorf("an empty folder is %v", trace)
	}
}

// TestRatesOfKindsByHand: arrivals all at once, and those of users, have no rate of their own.
func TestRatesOfKindsByHand(t *testing.T) {
	for kind, want := range map[string]bool{ArrivalsAtOnce: false, ArrivalsClosed: false, ArrivalsPoisson: true, ArrivalsAuto: true, ArrivalsTrace: true} {
		s := ArrivalSpec{Kind: kind, ThinkDistribution: ThinkFixed, RatePerS: 2, CV: 1, Users: 3, Scale: 1}
		c := input.Check{}
		if s.Check(&c); (c.Err() == nil) != want {
			t.Errorf("%s: %v", kind, c.Err())
		}
		if s.RatePerS = 0; true {
			c = input.Check{}
			if s.Check(&c); c.Err() != nil {
				t.Errorf("%s without a rate: %v", kind, c.Err())
			}
		}
	}
	turns := &Trace{Requests: []Request{{Input: 1, Output: 1, Turn: &Turn{}}, {ID: 1, Input: 1, Output: 1, Turn: &Turn{Number: 1, Waits: true, Think: units.Second}}}}
	if kind, err := turns.arrivalKind(&ArrivalSpec{Kind: ArrivalsTrace}, 2); kind != ArrivalsTrace || err != nil {
		t.Errorf("turns that wait come as %s, %v", kind, err)
	}
	turns.Requests[0].Turn, turns.Requests[1].Turn = nil, nil
	if kind, err := turns.arrivalKind(&ArrivalSpec{Kind: ArrivalsTrace}, 2); err == nil {
		t.Errorf("requests of one time come as %s", kind)
	}
}

// TestMomentsOfPrefixes: moments computed without requests equal those of the requests, prefixes included; draws are bounded.
func TestMomentsOfPrefixes(t *testing.T) {
	spec := SyntheticSpec{Distribution: "lognormal", MaxTokens: 32768, PrefixTokens: 1000, Prefixes: 3}
	name := BuiltinNames()[0]
	trace, err := Synthetic(name, 50, 1, spec)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := SyntheticMoments(name, 50, 1, spec); err != nil || got != trace.Moments() || got.InputMean < 1001 {
		t.Errorf("%+v, %v, of the requests %+v", got, err, trace.Moments())
	}
	for _, n := range []int{0, -1, MaxRequests + 1} {
		if _, err := synthetic(name, n, &spec); err == nil {
			t.Errorf("%d requests are drawn", n)
		}
	}
	if trace, err := (&Trace{}).Redraw(3, 1); err == nil {
		t.Errorf("%v is drawn from nothing", trace)
	}
	var none *Trace
	if none.Valid() == nil {
		t.Error("no trace is valid")
	}
}

// TestColumnsOfReports: each moment is in the column of its name.
func TestColumnsOfReports(t *testing.T) {
	r := Report{Requests: 2, Input: Lengths{Tokens: 1000, Mean: 11, Std: 12, Min: 13, P25: 14, Median: 15, P75: 16, P90: 17, P95: 18, P99: 19, Max: 20}}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "prompt  1000   11.0  12.0  13   14   15      16   17   18   19   20\n") {
		t.Error(b.String())
	}
}
