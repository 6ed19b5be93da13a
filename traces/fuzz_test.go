package traces

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/units"
)

// FuzzRead requires that a file gives either an input.Error or a valid trace.
func FuzzRead(f *testing.F) {
	samples, err := filepath.Glob("testdata/*.*")
	if err != nil || len(samples) == 0 {
		f.Fatal("no samples", err)
	}
	for i, path := range samples {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		if deep.Case(i, 6) {
			f.Add(zip(f, text))
			f.Add(zipStandard(f, text))
		}
		trace, err := Load(path, 0)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range FormatNames() {
			var written bytes.Buffer
			if err := trace.Write(&written, name); err != nil {
				f.Fatal(err)
			}
			f.Add(written.Bytes())
		}
	}
	f.Add([]byte("num_prefill_tokens,num_decode_tokens\n1,1\n"))
	f.Add([]byte("arrival_ns,input_tokens,output_tokens\n9223372036854775807,1,1\n0,1,1\n"))
	f.Add([]byte("TIMESTAMP,ContextTokens,GeneratedTokens\n0001-01-01 00:00:00,1,1\n9999-12-31 23:59:59.999999999,1,1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		trace, err := readFirst("f", bytes.NewReader(text), 0)
		if err != nil {
			var bad *input.Error
			if !errors.As(err, &bad) {
				t.Fatalf("not an input.Error: %v", err)
			}
			return
		}
		if len(trace.Requests) == 0 || trace.Requests[0].Arrival != 0 {
			t.Fatalf("no first request at time 0: %+v", trace.Requests)
		}
		writeAgain(t, trace)
		last := units.Duration(0)
		for i, r := range trace.Requests {
			if r.ID != i || r.Arrival < last || r.Input < 1 || r.Input > maxTokens || r.Output < 1 || r.Output > maxTokens {
				t.Fatalf("request %d: %+v after %v", i, r, last)
			}
			last = r.Arrival
		}
	})
}

// writeAgain requires that every format that can hold all of a trace reads it as it was written.
func writeAgain(t *testing.T, trace *Trace) {
	for _, name := range FormatNames() {
		lost, err := trace.Lost(name)
		if err != nil {
			t.Fatal(err)
		}
		// A float64 has 15 digits.
		if lost != nil || name == "parquet" && slices.ContainsFunc(trace.Requests, func(r Request) bool { return r.Arrival%units.Microsecond != 0 }) {
			continue
		}
		var text bytes.Buffer
		if err := trace.Write(&text, name); err != nil {
			t.Fatal(err)
		}
		again, err := readFirst("f", &text, 0)
		if err != nil || !same(again.Requests, trace.Requests) {
			t.Fatalf("%s: got %+v, %v\nwant %+v", name, again, err, trace)
		}
	}
}
