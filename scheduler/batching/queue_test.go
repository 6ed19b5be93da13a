package batching

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestQueueIsAList: whatever arrives, leaves at the head and returns there, the queue equals a
// list, and takes no more memory than the longest list did.
func TestQueueIsAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, next, longest := &queue{}, int32(0), 0
		var list []int32
		for range rapid.IntRange(1, 40).Draw(t, "acts") {
			n := rapid.IntRange(0, 700).Draw(t, "requests")
			act := rapid.SampledFrom([]string{"come", "leave", "return"}).Draw(t, "act")
			for range n {
				switch act {
				case "come":
					q.add(Waiting{Request: next})
					list = append(list, next)
					next++
				case "leave":
					if len(list) > 0 {
						q.head++
						list = list[1:]
					}
				default:
					q.pushFront(Waiting{Request: next})
					list = slices.Insert(list, 0, next)
					next++
				}
			}
			longest = max(longest, len(list))
			if q.Len() != len(list) {
				t.Fatalf("%d requests, want %d", q.Len(), len(list))
			}
			for i, w := range q.list[q.head:] {
				if w.Request != list[i] {
					t.Fatalf("place %d: %d, want %d", i, w.Request, list[i])
				}
			}
		}
		if len(q.list) > 2*longest+4*256+700 {
			t.Fatalf("%d places for %d requests at most", len(q.list), longest)
		}
	})
}

// TestLostMemoryKeepsOrder: requests of two memories are preempted in any order. They wait in their order of arrival, before those
// whose prompts never ran.
func TestLostMemoryKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		running, waiting := rapid.IntRange(1, 8).Draw(t, "running"), rapid.IntRange(0, 5).Draw(t, "waiting")
		q, lose := &queue{}, []int32(nil)
		for i := range int32(running) {
			lose = append(lose, i)
		}
		for i := range waiting {
			q.add(Waiting{Request: int32(running + i)})
		}
		q.Blocked = true
		for _, r := range rapid.Permutation(lose).Draw(t, "lose") {
			q.insert(Waiting{Request: r})
		}
		for i, w := range q.list[q.head:] {
			if w.Request != int32(i) {
				t.Fatalf("place %d: request %d", i, w.Request)
			}
		}
		if q.Len() != running+waiting || q.Blocked {
			t.Fatalf("%d wait, blocked %v", q.Len(), q.Blocked)
		}
	})
}
