package check

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/internal/lines"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// readLog reads all records of a log.
func readLog(r io.Reader) (LogHeader, []Record, error) {
	l, err := NewLogReader("test", r)
	if err != nil {
		return LogHeader{}, nil, err
	}
	var records []Record
	for {
		r, err := l.Next()
		if err == io.EOF {
			return l.Header, records, nil
		}
		if err != nil {
			return l.Header, records, err
		}
		records = append(records, r)
	}
}

// drawRecords draws records in the order of their clocks.
func drawRecords(t *rapid.T) []Record {
	part := rapid.Int32Range(-1, 1<<30)
	records := make([]Record, rapid.IntRange(0, 20).Draw(t, "records"))
	clock := int64(0)
	for i := range records {
		clock += rapid.Int64Range(0, 1<<40).Draw(t, "step")
		records[i] = Record{clock, dram.Command(rapid.IntRange(0, dram.Commands-1).Draw(t, "command")),
			at(part.Draw(t, "rank"), part.Draw(t, "group"), part.Draw(t, "bank"), part.Draw(t, "row"), part.Draw(t, "column"))}
	}
	return records
}

func TestLogRoundTrip(t *testing.T) {
	names := dram.SpecNames()
	rapid.Check(t, func(t *rapid.T) {
		s, err := dram.LookupSpec(rapid.SampledFrom(names).Draw(t, "spec"))
		if err != nil {
			t.Fatal(err)
		}
		s.TRFC = rapid.IntRange(1, 900).Draw(t, "tRFC")
		if rapid.Bool().Draw(t, "custom") {
			for _, p := range s.Parameters() { // parameters that only the part's name gives
				if err := s.Set(p.Term, strconv.Itoa(p.Clocks)); err != nil {
					t.Fatal(err)
				}
			}
			s.Name = "custom"
		}
		header := LogHeader{Spec: s, Ranks: rapid.IntRange(1, 4).Draw(t, "ranks"),
			PrivateBuses: rapid.Bool().Draw(t, "private"), Allow: []string{"tFAW", "tRRD_S"}}
		records := drawRecords(t)
		var b bytes.Buffer
		w := NewLogWriter(&b, header)
		for _, r := range records {
			w.Write(r.Clock, r.Command, r.Address)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		gotHeader, got, err := readLog(&b)
		if err != nil {
			t.Fatal(err)
		}
		changed := schema.Of[dram.Spec]().Changed(gotHeader.Spec, s)
		changed = slices.DeleteFunc(changed, func(k schema.Key) bool { return k.Name == "timings" })
		if len(changed) > 0 || !slices.Equal(gotHeader.Spec.Parameters(), s.Parameters()) || gotHeader.Ranks != header.Ranks || gotHeader.PrivateBuses != header.PrivateBuses ||
			strings.Join(gotHeader.Allow, "|") != "tFAW|tRRD_S" {
			t.Fatalf("header: got %+v, want %+v", gotHeader, header)
		}
		if len(got) != len(records) {
			t.Fatalf("%d records, want %d", len(got), len(records))
		}
		for i := range got {
			if got[i] != records[i] {
				t.Fatalf("record %d: got %+v, want %+v", i, got[i], records[i])
			}
		}
	})
}

func TestLogForms(t *testing.T) {
	for _, text := range []string{
		"clock,command,rank,bankgroup,bank,row,column\n5,REF,1,-1,-1,-1,-1\n",
		"cycle,cmd,rank,bankgroup,bank,row,col\r\n5,REF,1,,,,\r\n",
		"# a comment\n\nclock,command,rank,bankgroup,bank,row,column\n# another\n\n5, REF, 1, , , , ",
	} {
		_, got, err := readLog(strings.NewReader(text))
		want := Record{5, dram.REF, at(1, -1, -1, -1, -1)}
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

func TestLogErrors(t *testing.T) {
	const header = "clock,command,rank,bankgroup,bank,row,column\n"
	for _, c := range []struct{ text, want string }{
		{"", "the header"},
		{"5,REF,1,-1,-1,-1,-1\n", "the header"},
		{"# spec = ddr5\n" + header, "--dram FILE.toml:PART"},
		{"# ranks = 0\n" + header, "1 to 64"},
		{"# buses = none\n" + header, "rank or channel"},
		{"# spec = ddr4-3200-8gb-x8\n# set tRFCC = 3\n" + header, "tRFC"},
		{"# spec = ddr4-3200-8gb-x8\n# set tRFC = 3s\n" + header, "whole number"},
		{"# spec = ddr4-3200-8gb-x8\n# set tRFC = 0\n" + header, "test: tRFC = 0: expected "},
		{header + "-5,REF,1,-1,-1,-1,-1\n", "test:2: clock"},
		{header + "5,REF,1,-1,-1,-1,-1\n4,REF,1,-1,-1,-1,-1\n", "test:3: clock = 4"},
		{header + "5,REFF,1,-1,-1,-1,-1\n", `did you mean "REF"`},
		{header + "5,REF,1,-1,-1,-1\n", "seven columns"},
		{header + "5,REF,1,-1,-1,-1,-1,\n", "seven columns"},
		{header + "5,RD,1,x,-1,-1,-1\n", "bankgroup"},
		{header + "5,RD,99999999999,0,0,0,0\n", "rank"},
		{header + "99999999999999999999,RD,0,0,0,0,0\n", "clock"},
	} {
		_, _, err := readLog(strings.NewReader(c.text))
		var in *input.Error
		if !errors.As(err, &in) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want an input error with %q", c.text, err, c.want)
		}
	}
}

// zipped returns compressed text.
func zipped(tb testing.TB, text string) []byte {
	tb.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestLogGzip(t *testing.T) {
	text := logColumns + "\n" + strings.Repeat("5,REF,1,-1,-1,-1,-1\n", 1000)
	whole := zipped(t, text)
	if _, got, err := readLog(bytes.NewReader(whole)); err != nil || len(got) != 1000 {
		t.Errorf("got %d records, %v", len(got), err)
	}
	_, _, err := readLog(bytes.NewReader(whole[:len(whole)-10]))
	var in *input.Error
	if !errors.As(err, &in) || !strings.Contains(err.Error(), "ends early") {
		t.Errorf("truncated: got %v", err)
	}
}

func FuzzLog(f *testing.F) {
	f.Add([]byte(logColumns + "\n5,REF,1,-1,-1,-1,-1\n"))
	f.Add([]byte("cycle,cmd,rank,bankgroup,bank,row,col\n2,ACT,0,0,0,0,0\n24,RD,0,0,0,0,0"))
	f.Add([]byte("# spec = ddr4-3200-8gb-x8\n# set tRFC = 880\n# allow = tFAW\n" + logColumns + "\n"))
	f.Add(zipped(f, logColumns+"\n1,PREA,0,,,,\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, records, err := readLog(bytes.NewReader(data))
		var in *input.Error
		if err != nil && !errors.As(err, &in) {
			t.Fatalf("%T: %v", err, err)
		}
		for i, r := range records {
			if r.Clock < 0 || i > 0 && r.Clock < records[i-1].Clock {
				t.Fatalf("record %d: %+v", i, r)
			}
		}
	})
}

// TestLogReaderIsBounded: no log makes memory or an error message large.
func TestLogReaderIsBounded(t *testing.T) {
	long := strings.Repeat("x", 60_000)
	for _, text := range []string{"# spec = " + long, "# ranks = " + long, "# buses = " + long, "# allow = " + long, "# allow = tRP, " + long,
		"# spec = custom\n# set " + long + " = 1", "# spec = custom\n# set tRFC = " + long, long, strings.Repeat("x", lines.Max+1),
		logColumns + "\n" + long, logColumns + "\n0," + long + ",0,0,0,0,0", logColumns + "\n0,ACT,0,0,0," + long + ",0"} {
		l, err := NewLogReader("x", strings.NewReader(text))
		if err == nil {
			_, err = l.Next()
		}
		var bad *input.Error
		if !errors.As(err, &bad) || len(err.Error()) > 800 {
			t.Errorf("%.40s: %d bytes of message: %.200v", text, len(fmt.Sprint(err)), err)
		}
	}
	for ranks, right := range map[string]bool{"1": true, "64": true, "0": false, "65": false} {
		l, err := NewLogReader("x", strings.NewReader("# ranks = "+ranks+"\n"+logColumns))
		if (err == nil) != right || right && strconv.Itoa(l.Header.Ranks) != ranks {
			t.Errorf("%s ranks: %v", ranks, err)
		}
	}
	l, err := NewLogReader("x", strings.NewReader(strings.Repeat("# allow = tRP, tRC\n", 1000)+logColumns))
	if err != nil || len(l.Header.Allow) != 2 {
		t.Errorf("%d rules are allowed, want 2: %v", len(l.Header.Allow), err)
	}
}

// TestViolationsAreBounded: a log of violations alone is not held in memory.
func TestViolationsAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("# spec = ddr4-3200-8gb-x8\n# ranks = 1\n" + logColumns + "\n")
	for range 50 {
		text.WriteString("5,RD,7,0,0,0,0\n") // no such rank
	}
	l, err := NewLogReader("x", strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	found, err := checkLog(l, nil, 0, 20)
	if !errors.Is(err, ErrManyViolations) || len(found) != 21 {
		t.Errorf("%d violations, %v", len(found), err)
	}
}
