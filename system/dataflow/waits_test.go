package dataflow

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestHandWorkedWaits: in the schedule of TestHandWorkedSchedule the GPU works for 102 of 253 ns and waits four times,
// from 26 to 91, 111 to 119, 145 to 198 and 213 to 238. Each time the results that it needs next come up for 2 ns,
// after 1 ns of latency: 12 ns. For the rest, 62, 5, 50 and 22 ns, they are computed on a rankset.
//
// Results come up six times, for 2 ns each, and each time the link has idled for longer than its latency of 1 ns.
//
// The link down has eight transfers. It waits for the GPU until 10 and from 91 to 111; for ranksets from 49 to 88 and,
// before the last prompt, from 168 to 235; for results, with their latency, from 88 to 91 and 235 to 238. In the rest
// of its idle time a transfer could start but for the latency, rows that open, or a lane's boundary.
//
// Rankset 0 waits for the link while a transfer is due but has not begun: 3, 3, 5 and 3 ns. Behind transfers it closes
// rows and activates: 3, 7 and 3 ns of its own. Before the last prompt, from 189 to 235, it waits for rankset 1: 46 ns.
// Rankset 1 waits for the link for 10, 3, 3 and 10 ns and for itself for 3, 3 and 7.
func TestHandWorkedWaits(t *testing.T) {
	w := New(handResources()).Waits(handIteration(), 0)
	if want := []Time{testLanes: 2 * 163, testDown: 46, testUp: 12, testGPU: 102}; !slices.Equal(w.Busy, want) {
		t.Errorf("resources work for %d, want %d", w.Busy, want)
	}
	for r, want := range map[int][]Time{
		testLanes: {testLanes: 59 + 13, testDown: 14 + 26, testUp: 3 + 3, testGPU: 10 + 30},
		testDown:  {testLanes: 106, testDown: 61, testUp: 6, testGPU: 30},
		testGPU:   {testLanes: 139, testDown: 0, testUp: 12, testGPU: 0},
	} {
		if got := w.For[r]; !slices.Equal(got, want) {
			t.Errorf("resource %d waits %d, want %d", r, got, want)
		}
	}
	if got, want := w.For[testUp][testUp], Time(6); got != want {
		t.Errorf("the link up waits for its own latency for %d, want %d", got, want)
	}
	if got, want := w.Done, []Time{testLanes: 4 + 18, testDown: 4, testUp: 15, testGPU: 0}; !slices.Equal(got, want) {
		t.Errorf("after their last operations resources idle for %d, want %d", got, want)
	}
}

// TestWaitsAddUp: for any iteration, what resources do, wait for and idle at the end is its time, on each lane.
func TestWaitsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resources, it := drawIteration(t)
		e := New(resources)
		start := Time(rapid.IntRange(0, 1000).Draw(t, "start"))
		took := e.Run(it, start) - start
		w := e.Waits(it, start)
		if e.Exact {
			t.Fatal("the engine runs every layer from now on")
		}
		for r := range resources {
			sum, lanes := w.Busy[r]+w.Done[r], Time(1)
			for _, waits := range w.For[r] {
				if waits < 0 {
					t.Fatalf("resource %d waits %d", r, w.For[r])
				}
				sum += waits
			}
			if resources[r].Discipline == Lanes {
				lanes = Time(resources[r].Count)
			}
			if sum != lanes*took {
				t.Fatalf("resource %d: %d busy, waits %d, %d at the end are not %d x %d", r, w.Busy[r], w.For[r], w.Done[r], lanes, took)
			}
		}
	})
}
