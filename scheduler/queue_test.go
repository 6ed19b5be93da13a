package scheduler

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestQueueIsAList: whatever comes, leaves at the head and comes back there, the queue holds what a
// list would, and no more memory than the longest list took.
func TestQueueIsAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, next, longest := &Scheduler{}, int32(0), 0
		var list []int32
		for range rapid.IntRange(1, 40).Draw(t, "acts") {
			n := rapid.IntRange(0, 700).Draw(t, "requests")
			act := rapid.SampledFrom([]string{"come", "leave", "return"}).Draw(t, "act")
			for range n {
				switch act {
				case "come":
					s.enqueue(waiting{request: next})
					list = append(list, next)
					next++
				case "leave":
					if len(list) > 0 {
						s.head++
						list = list[1:]
					}
				default:
					s.pushFront(waiting{request: next})
					list = slices.Insert(list, 0, next)
					next++
				}
			}
			longest = max(longest, len(list))
			if s.Waiting() != len(list) {
				t.Fatalf("%d requests, want %d", s.Waiting(), len(list))
			}
			for i, w := range s.queue[s.head:] {
				if w.request != list[i] {
					t.Fatalf("place %d: %d, want %d", i, w.request, list[i])
				}
			}
		}
		if len(s.queue) > 2*longest+4*256+700 {
			t.Fatalf("%d places for %d requests at most", len(s.queue), longest)
		}
	})
}
