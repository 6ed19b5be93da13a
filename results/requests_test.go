package results

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

func TestWriteRequests(t *testing.T) {
	requests := []Request{
		{traces.Request{ID: 0, Input: 96, Output: 4}, 1_400_000_000_000, 1_500_000_000_000, 1_500_000_000_010, Served, true, false},
		{traces.Request{ID: 1, Arrival: 625, Input: 7, Output: 1}, 625, 2e12, 2e12, Served, false, false},
		{traces.Request{ID: 2, Arrival: 3e12, Input: 9, Output: 5}, 0, 0, 4e12, TooLarge, false, false},
		{traces.Request{ID: 3, Input: 1, Output: 3}, 0, 0, 80_000_000_000, Served, true, false},
		{traces.Request{ID: 4, Arrival: 3e12, Input: 9, Output: 5}, 0, 0, 3e12, Refused, false, false},
		{traces.Request{ID: 5, Arrival: 3e12, Input: 9, Output: 5}, 0, 0, 4e12, Expired, false, false},
	}
	var b bytes.Buffer
	if err := WriteRequests(&b, requests); err != nil {
		t.Fatal(err)
	}
	golden(t, "requests.csv", b.Bytes())

	// Laws: each row has as many cells as the header, for any CSV reader, and no times if there was no
	// token.
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != len(requests)+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if strings.Join(rows[3][4:10], "") != "" || rows[2][8] != "" {
		t.Errorf("a time that no token has: %v, %v", rows[3], rows[2])
	}
	if err := WriteRequests(failing{}, requests); !errors.Is(err, errFull) {
		t.Errorf("a full disk: got %v", err)
	}
}

// TestDecimal checks that the text of a time is exact.
func TestDecimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.Int64().Draw(t, "ps")
		got, ok := new(big.Rat).SetString(decimal(units.Duration(d), 12))
		if !ok || got.Cmp(big.NewRat(d, 1e12)) != 0 {
			t.Fatalf("%d ps are written %s s", d, decimal(units.Duration(d), 12))
		}
	})
}

func TestMeanTBT(t *testing.T) {
	r := Request{Request: traces.Request{Output: 4}, FirstToken: 10, Finish: 21}
	if mean, ok := r.MeanTBT(); mean != 4 || !ok { // 11/3, rounded
		t.Errorf("got %v, %v", mean, ok)
	}
}

// TestWriteIterations: each column of iterations.csv has its own number, exact to the picosecond.
func TestWriteIterations(t *testing.T) {
	record := IterationRecord{
		Replica: 1, Start: 2e12, End: 3_500_000_000_001, Decoding: 4, PromptTokens: 5, FirstTokens: 6, Waiting: 7, InSystem: 18, KV: 9, GPU: 10e12, PIM: 11e12,
		PCIeDown: 12e12, PCIeUp: 13e12, Channel: 14e12, PrefixTokens: 15, Cached: 16, Joules: 17.25,
	}
	var b bytes.Buffer
	if err := WriteIterations(&b, []IterationRecord{record}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v, %v", rows, err)
	}
	want := map[string]string{
		"replica": "1", "start_s": "2", "end_s": "3.500000000001", "decode_requests": "4", "prompt_tokens": "5", "first_tokens": "6", "waiting_requests": "7",
		"requests_in_system": "18", "kv_bytes": "9", "gpu_s": "10", "pim_s": "11", "pcie_down_s": "12", "pcie_up_s": "13", "channel_s": "14", "site_energy_j": "17.25",
		"prefix_tokens": "15", "cached_bytes": "16",
	}
	if len(rows[0]) != len(want) {
		t.Errorf("columns %v", rows[0])
	}
	for i, column := range rows[0] {
		if rows[1][i] != want[column] {
			t.Errorf("%s is %s, want %s", column, rows[1][i], want[column])
		}
	}
}
