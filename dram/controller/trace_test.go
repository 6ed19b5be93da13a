package controller

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

func TestReadTrace(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Request
	}{
		{"0x1f40 READ 0\n0xFFFFFFFFFFFFFFFF WRITE 200\n", []Request{{Clock: 0, Address: 0x1f40, Write: false}, {Clock: 200, Address: 1<<64 - 1, Write: true}}},
		{"0x40 WRITE_PARTIAL 3", []Request{{Clock: 3, Address: 64, Write: true, Partial: true}}},
		{"LD 0x40\r\nST 128\r\n", []Request{{Clock: 0, Address: 0x40, Write: false}, {Clock: 0, Address: 128, Write: true}}},
		{"# comment\n\n  64\tREAD   7  \n\n", []Request{{Clock: 7, Address: 64, Write: false}}},
		{"0x0 READ 1", []Request{{Clock: 1, Address: 0, Write: false}}},
		{"0x0 READ 000000000000000001", []Request{{Clock: 1, Address: 0, Write: false}}},
		{"31:\tread\t0x400140\r\n33: (32) write 7fff8000 0x1234\n", []Request{{Clock: 31, Address: 0x400140}, {Clock: 33, Address: 0x7fff8000, Write: true, Bytes: 32}}},
		{"", nil},
	} {
		for _, data := range [][]byte{[]byte(c.text), zipped(t, c.text)} {
			got, err := ReadTrace("test", bytes.NewReader(data))
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q: got %v, %v", c.text, got, err)
			}
		}
	}
}

func TestReadTraceErrors(t *testing.T) {
	zip := zipped(t, strings.Repeat("0x40 READ 0\n", 5000))
	for _, c := range []struct{ text, want string }{
		{"0x0 READ -1\n", "test:1: clock = -1: expected 0 to"},
		{"0x0 READ 5\n0x0 READ 4\n", "test:2: clock = 4: expected at least 5"},
		{"0x0 READ\n", "0xADDRESS READ|WRITE CLOCK"},
		{"0x0 READ 1 2\n", "0xADDRESS READ|WRITE CLOCK"},
		{"0x0 LOAD 1\n", "READ or WRITE"},
		{"0xg READ 1\n", "address = 0xg"},
		{"0x10000000000000000 READ 1\n", "64 bits"},
		{"0x0 READ 99999999999999999999\n", "clock"},
		{"LD 0x0\n0x0 READ 0\n", "test:2: "},
		{"LD 0x0 5\n", "LD|ST ADDRESS"},
		{"LD -5\n", "address"},
		{"read 0x0\n", `"CLOCK: [(BYTES)] read|write ADDRESS" (DRAMSys)`},
		{"0: read\n", "CLOCK: [(BYTES)] read|write ADDRESS"},
		{"0: read 0x0\n5 read 0x0\n", "test:2: "},
		{"0: load 0x0\n", "expected read or write"},
		{"-1: read 0x0\n", "clock = -1"},
		{"5: read 0x0\n4: read 0x0\n", "test:2: clock = 4: expected at least 5"},
		{"0: read 0xg\n", "address"},
		{"0: (0) read 0x0\n", "test:1: bytes = (0): expected (BYTES), a power of two"},
		{"0: (-8) read 0x0\n", "bytes = (-8)"},
		{"0: (48) read 0x0\n", "bytes = (48)"},
		{"0: (64 read 0x0\n", "bytes = (64"},
		{"0: (16777216) read 0x0\n", "1 to 8388608"},
		{"0: (64) read 0x0\n1: (64) read 0x20\n", "test:2: address = 0x20: expected a multiple of 64"},
		{strings.Repeat("a", 70_000), "65536"},
		{string(zip[:len(zip)-9]), "ends early"},
		{string(zip[:5]), "gzip"},
	} {
		_, err := ReadTrace("test", strings.NewReader(c.text))
		var in *input.Error
		if !errors.As(err, &in) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: got %v, want an input error with %q", c.text, err, c.want)
		}
	}
}

// fuzzTrace requires of any text an input error, or requests in the order of their clocks.
func fuzzTrace(t *testing.T, data []byte) {
	requests, err := ReadTrace("test", bytes.NewReader(data))
	var in *input.Error
	if err != nil && !errors.As(err, &in) {
		t.Fatalf("%T: %v", err, err)
	}
	for i, r := range requests {
		if r.Clock < 0 || i > 0 && r.Clock < requests[i-1].Clock {
			t.Fatalf("request %d at clock %d", i, r.Clock)
		}
	}
}

func FuzzDRAMsim3Trace(f *testing.F) {
	f.Add([]byte("0x1f40 READ 0\n0x80 WRITE 200\n"))
	f.Add([]byte("0x0 READ 5\n0x0 READ 4\n"))
	f.Add(zipped(f, "0x0 READ 1\n"))
	f.Fuzz(fuzzTrace)
}

func FuzzRamulatorTrace(f *testing.F) {
	f.Add([]byte("LD 0x40\nST 128\n"))
	f.Add([]byte("ST 0x\n"))
	f.Add(zipped(f, "LD 0x40\n"))
	f.Fuzz(fuzzTrace)
}

func FuzzDRAMSysTrace(f *testing.F) {
	f.Add([]byte("31: read 0x400140\n33: (32) write 0x7fff8000 0x1234\n"))
	f.Add([]byte("0: ( read\n"))
	f.Fuzz(fuzzTrace)
}

// Nothing that a trace holds makes memory or an error message large.
func TestTraceReaderIsBounded(t *testing.T) {
	long := strings.Repeat("x", 60_000)
	if _, err := readTrace("x", strings.NewReader("LD 0\nLD 0\nLD 0\n"), 2); err == nil || !strings.Contains(err.Error(), "x:3: expected at most 2 requests") {
		t.Errorf("three requests where two fit: %v", err)
	}
	if q, err := readTrace("x", strings.NewReader("LD 0\nLD 0\n\n# end\n"), 2); err != nil || len(q) != 2 {
		t.Errorf("two requests where two fit: %v", err)
	}
	for _, text := range []string{long, "READ " + long, "0x1 " + long + " 5", "0x1 READ " + long, "LD 0\nLD " + long, "0: (" + long + ") read 0x0", "0: read " + long} {
		if _, err := ReadTrace("x", strings.NewReader(text)); err == nil || len(err.Error()) > 400 {
			t.Errorf("%.40s: %.300v", text, err)
		}
	}
}

// TestLongTraces: blocks of requests are joined in order, whether the last one is full or not, and count towards the limit.
func TestLongTraces(t *testing.T) {
	for _, n := range []int{traceBlock - 1, traceBlock, traceBlock + 1, 2*traceBlock + 3} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "0x%x READ %d\n", 64*i, i)
		}
		q, err := readTrace("x", strings.NewReader(b.String()), n)
		if err != nil || len(q) != n {
			t.Fatalf("%d requests: %d, %v", n, len(q), err)
		}
		for i := range q {
			if q[i].Address != uint64(64*i) || q[i].Clock != int64(i) {
				t.Fatalf("request %d of %d is %+v", i, n, q[i])
			}
		}
		if _, err := readTrace("x", strings.NewReader(b.String()), n-1); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("x:%d: expected at most %d requests", n, n-1)) {
			t.Errorf("one beyond %d: %v", n-1, err)
		}
	}
}

// BenchmarkReadTrace reads 450,000 requests.
func BenchmarkReadTrace(b *testing.B) {
	text := strings.Repeat("0x1f40 READ 200\n", 450_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadTrace("x", strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
