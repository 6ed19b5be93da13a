package sweep

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/l3sim/l3sim/results/tables"
)

// TestReportByHand: three points, of which the second failed and the last is invalid, with two draws of each valid one. All numbers of an outcome
// differ.
func TestReportByHand(t *testing.T) {
	p := &Plan{Points: []Point{{Name: "a", Seed: 1}, {Name: "b", Seed: 2}, {Name: "c", Seed: 3, Err: errors.New("x.toml:4: no")}, {Name: "a", Seed: 11, draw: &draw{index: 1}}, {Name: "a", Seed: 12, draw: &draw{index: 2, of: 0}}}}
	p.bands, p.count = &Bands{Draws: 2}, 3
	failed := func(why string) *Entry { return &Entry{Status: tables.StatusFailed, Error: why} }
	o := &Outcome{Ran: 5, Reused: 6, Failed: 7, Missing: 8, Left: 9, Entries: []*Entry{{Status: tables.StatusDone}, failed("too slow"), failed("of the journal"), nil, failed("of a draw")}}
	want := &Report{Schema: "l3sim/sweep/1", Points: 3, Draws: 2, Progress: &Progress{Ran: 5, Reused: 6, Missing: 8, Out: "out"}, Failed: 7,
		Faults: []FailedPoint{{"b", 2, "too slow"}, {"c", 3, "x.toml:4: no"}, {"a, draw 2", 12, "of a draw"}}}
	if got := NewReport(p, nil, o, "out"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v of %+v\nwant %+v of %+v", got, got.Progress, want, want.Progress)
	}
	want.Shard = "2/3"
	if got := NewReport(p, &Part{Shard: Shard{2, 3}}, o, "out"); !reflect.DeepEqual(got, want) {
		t.Errorf("of a shard: %+v, want %+v", got, want)
	}
	for columns, said := range map[string]string{"": "3 points and 2 draws of each", variantKey: "3 points and 2 draws of each that counts"} {
		if p.columns = []string{columns}; p.Size() != said {
			t.Errorf("%s, want %s", p.Size(), said)
		}
	}
	p.bands = nil
	if p.Points = p.Points[:1]; p.Size() != "1 point" || NewReport(p, nil, &Outcome{}, "").Draws != 0 {
		t.Errorf("without draws %s", p.Size())
	}
}

// TestRoundTime: below a second to a millisecond, which is the least; below a minute to a tenth of a second; then to a
// second.
func TestRoundTime(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		0: time.Millisecond, 1400 * time.Microsecond: time.Millisecond, 999600 * time.Microsecond: time.Second, time.Second: time.Second,
		1260 * time.Millisecond: 1300 * time.Millisecond, 59960 * time.Millisecond: time.Minute, time.Minute: time.Minute, 61600 * time.Millisecond: 62 * time.Second,
	} {
		if got := RoundTime(d); got != want {
			t.Errorf("%v: %v, want %v", d, got, want)
		}
	}
}
