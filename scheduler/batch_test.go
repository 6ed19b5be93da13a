package scheduler

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestCountsOfABatch counts rows, tokens and requests of two sub-batches. The first verifies three tokens of each of six requests: two on the host,
// one in the spare memory. It prefills 10, 20 and 40 tokens; 20 of these stay in the spare memory, and two prompts end.
func TestCountsOfABatch(t *testing.T) {
	a := SubBatch{
		Decode: []Decoding{{Base: 5}, {Base: 7}, {Base: 100}}, Host: make([]Decoding, 2), Near: make([]Decoding, 1), Verified: 3,
		Prefill: []Chunk{{Tokens: 10, Last: true}, {Tokens: 20, Near: true}, {Tokens: 40, Last: true}},
	}
	b := SubBatch{Decode: make([]Decoding, 4)}
	for name, c := range map[string][2]int{
		"prompt tokens": {a.PrefillTokens(), 70}, "moved": {a.MovedTokens(), 50}, "rows": {a.Tokens(), 18 + 70}, "decoding rows": {a.DecodeTokens(), 18}, "sampled": {a.Sampled(), 18 + 2}, "emitting": {a.Emitting(), 6 + 2},
		"contexts": {int(a.Contexts(4)), 5 + 7 + 100 + 3*4}, "context": {a.Decode[1].Context(4), 11},
		"rows without drafts": {b.Tokens(), 4}, "sampled without drafts": {b.Sampled(), 4}, "moved of none": {b.MovedTokens(), 0},
		"spared": {(&Shared{Tokens: 512, Requests: make([]int32, 4)}).Spared(), 3 * 512},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, by hand %d", name, c[0], c[1])
		}
	}
	x := &Batch{Sub: []SubBatch{a, b}}
	if x.Decoding() != 10 || x.Requests() != 10+3 || x.Tokens() != 92 || x.Empty() {
		t.Errorf("%d requests decode, %d in all, %d rows, empty %v", x.Decoding(), x.Requests(), x.Tokens(), x.Empty())
	}
	for _, s := range []SubBatch{{Host: make([]Decoding, 1)}, {Near: make([]Decoding, 1)}, {Decode: make([]Decoding, 1)}, {Prefill: make([]Chunk, 1)}} {
		if (&Batch{Sub: []SubBatch{{}, s}}).Empty() {
			t.Errorf("%+v is empty", s)
		}
	}
	if !(&Batch{Sub: make([]SubBatch, 2)}).Empty() || !(&Batch{}).Empty() {
		t.Error("nothing is something")
	}
}

// TestTextsOfServingKeys: the text of an error gives the limits, and the keys and values that exclude each
// other.
func TestTextsOfServingKeys(t *testing.T) {
	for _, c := range []struct {
		change func(s *ServingSpec)
		want   string
	}{
		{func(s *ServingSpec) { s.MaxWaiting = -1 }, "to 16777216"}, {func(s *ServingSpec) { s.PrefillStreak = -1 }, "0 (no limit) to 16777216"},
		{func(s *ServingSpec) { s.APIRequest = -1 }, "0s to 1s"}, {func(s *ServingSpec) { s.APIToken = -1 }, "0s to 1s"}, {func(s *ServingSpec) { s.DraftTime = -1 }, "0s to 1s"},
		{func(s *ServingSpec) { s.VerifiedTokens = 129; s.Acceptance = 1 }, "1 to 128"},
		{func(s *ServingSpec) { s.VerifiedTokens = 3 }, "more than 0, at most 1, with serving.verified_tokens = 3: the chance that a draft is accepted"},
		{func(s *ServingSpec) { s.Acceptance = 2 }, "0 (not given) to 1"}, {func(s *ServingSpec) { s.VerifiedOverlap = 2 }, "0 (as by chance) to 1"},
		{func(s *ServingSpec) { s.Prefill = PrefillElsewhere }, "100MB/s to 1000TB/s with serving.prefill = \"elsewhere\""},
		{func(s *ServingSpec) { s.PrefillBandwidth = 1e9 }, "0B/s with serving.prefill = \"here\""}, {func(s *ServingSpec) { s.PrefillLatency = 1 }, "0s with serving.prefill = \"here\""},
		{func(s *ServingSpec) { s.Prefill, s.PrefillBandwidth, s.PrefillLatency = PrefillElsewhere, 1e9, -1 }, "0s to 1s"},
	} {
		s := ServingSpec{Router: RouteRoundRobin, BeyondContext: BeyondWarn, Prefill: PrefillHere, VerifiedTokens: 1, PrefillStreak: 77}
		c.change(&s)
		if faults := input.Faults(&s); len(faults) != 1 || !strings.Contains(faults[0].Error(), c.want) {
			t.Errorf("%+v: %v, want %q", s, faults, c.want)
		}
	}
	for key, c := range map[string]struct {
		spec input.Checked
		want string
	}{
		"max_num_seqs": {&BatchingSpec{MaxBatchTokens: 1, PageTokens: 1, MaxNumSeqs: -1}, "0 (no limit) to 16777216"},
		"sub_batches":  {&Spec{SubBatches: 3, ChunkMultiple: 1, MinPrefillTokens: 1}, "1 or 2"},
		"history":      {&MemorySpec{Admission: AdmitFinal, MaxTokens: 1, Spare: SpareOff, History: -1}, "0 (no forecast) to 1048576"},
		"watermark":    {&MemorySpec{Admission: AdmitFinal, MaxTokens: 1, Spare: SpareOff, Watermark: 1}, "at least 0, less than 1"},
		"block":        {&CacheSpec{Block: 513, PrefixAttention: PrefixOnGPU, Placement: PlaceByPrefix}, "a multiple of 512, at most 1048576, or a divisor of 512"},
	} {
		if faults := input.Faults(c.spec); len(faults) != 1 || faults[0].Key != key || !strings.Contains(faults[0].Error(), c.want) {
			t.Errorf("%s: %v, want %q", key, faults, c.want)
		}
	}
}

// TestServingKeys: each key at the edges of its legal range.
func TestServingKeys(t *testing.T) {
	for _, c := range []struct {
		change func(s *ServingSpec)
		bad    string
	}{
		{func(*ServingSpec) {}, ""}, {func(s *ServingSpec) { s.Router = "any" }, "router"}, {func(s *ServingSpec) { s.BeyondContext = "cut" }, "beyond_context"},
		{func(s *ServingSpec) { s.MaxWaiting = -1 }, "max_waiting"}, {func(s *ServingSpec) { s.MaxWaiting = 1 << 24 }, ""}, {func(s *ServingSpec) { s.MaxWaiting = 1<<24 + 1 }, "max_waiting"},
		{func(s *ServingSpec) { s.Deadline = -1 }, "deadline"}, {func(s *ServingSpec) { s.APIRequest = -1 }, "api_request"}, {func(s *ServingSpec) { s.APIRequest = units.Second }, ""},
		{func(s *ServingSpec) { s.APIRequest = units.Second + 1 }, "api_request"}, {func(s *ServingSpec) { s.APIToken = -1 }, "api_token"}, {func(s *ServingSpec) { s.APIToken = units.Second }, ""}, {func(s *ServingSpec) { s.APIToken = units.Second + 1 }, "api_token"},
		{func(s *ServingSpec) { s.VerifiedTokens = 0 }, "verified_tokens"}, {func(s *ServingSpec) { s.VerifiedTokens, s.Acceptance = 128, 1 }, ""}, {func(s *ServingSpec) { s.VerifiedTokens, s.Acceptance = 129, 1 }, "verified_tokens"},
		{func(s *ServingSpec) { s.VerifiedTokens = 2 }, "acceptance"}, {func(s *ServingSpec) { s.VerifiedTokens, s.Acceptance = 2, 0.01 }, ""}, {func(s *ServingSpec) { s.Acceptance = 0.5 }, ""},
		{func(s *ServingSpec) { s.Acceptance = -0.1 }, "acceptance"}, {func(s *ServingSpec) { s.VerifiedTokens, s.Acceptance = 2, 1.1 }, "acceptance"},
		{func(s *ServingSpec) { s.VerifiedOverlap = -0.1 }, "verified_overlap"}, {func(s *ServingSpec) { s.VerifiedOverlap = 1 }, ""}, {func(s *ServingSpec) { s.VerifiedOverlap = 1.1 }, "verified_overlap"},
		{func(s *ServingSpec) { s.DraftTime = -1 }, "draft_time"}, {func(s *ServingSpec) { s.DraftTime = units.Second }, ""}, {func(s *ServingSpec) { s.DraftTime = units.Second + 1 }, "draft_time"},
		{func(s *ServingSpec) { s.Prefill = "" }, "prefill"}, {func(s *ServingSpec) {
			s.Prefill, s.PrefillBandwidth, s.PrefillLatency = PrefillElsewhere, 1e8, units.Second
		}, ""},
		{func(s *ServingSpec) { s.Prefill, s.PrefillBandwidth = PrefillElsewhere, 1e8-1 }, "prefill_bandwidth"}, {func(s *ServingSpec) { s.Prefill, s.PrefillBandwidth = PrefillElsewhere, 1.1e15 }, "prefill_bandwidth"},
		{func(s *ServingSpec) { s.PrefillBandwidth = 1e9 }, "prefill_bandwidth"}, {func(s *ServingSpec) { s.PrefillLatency = 1 }, "prefill_latency"},
		{func(s *ServingSpec) {
			s.Prefill, s.PrefillBandwidth, s.PrefillLatency = PrefillElsewhere, 1e8, units.Second+1
		}, "prefill_latency"},
		{func(s *ServingSpec) { s.Prefill, s.PrefillBandwidth, s.PrefillLatency = PrefillElsewhere, 1e8, -1 }, "prefill_latency"},
		{func(s *ServingSpec) { s.PrefillStreak = -1 }, "prefill_streak"}, {func(s *ServingSpec) { s.PrefillStreak = 1 << 24 }, ""}, {func(s *ServingSpec) { s.PrefillStreak = 1<<24 + 1 }, "prefill_streak"},
	} {
		s := ServingSpec{Router: RouteRoundRobin, BeyondContext: BeyondWarn, Prefill: PrefillHere, VerifiedTokens: 1}
		c.change(&s)
		if faults := input.Faults(&s); (len(faults) == 0) != (c.bad == "") || len(faults) > 0 && faults[0].Key != c.bad {
			t.Errorf("%+v: %v, want %q", s, faults, c.bad)
		}
	}
	s := ServingSpec{VerifiedTokens: 3, Acceptance: 0.5}
	if s.Verified() != 3 || (&ServingSpec{}).Verified() != 1 || s.Speculation(7) != (Speculation{Verified: 3, Acceptance: 0.5, Seed: 7}) || (&ServingSpec{VerifiedTokens: 1, Acceptance: 0.5}).Speculation(7) != (Speculation{}) {
		t.Errorf("%+v", s.Speculation(7))
	}
	for verified, want := range map[int]int{0: 1, 1: 1, 2: 2, 5: 5} {
		if got := (Speculation{Verified: verified}).Tokens(); got != want {
			t.Errorf("a step that verifies %d tokens has %d", verified, got)
		}
	}
	for spare, want := range map[string]bool{SpareOff: false, SpareDecode: true, SpareWait: true} {
		if (&MemorySpec{Spare: spare}).UsesSpare() != want {
			t.Errorf("%s uses the spare memory: %v", spare, !want)
		}
	}
	if (&ServingSpec{}).HasAPIServer() || !(&ServingSpec{APIRequest: 1}).HasAPIServer() || !(&ServingSpec{APIToken: 1}).HasAPIServer() {
		t.Error("an API server takes time or there is none")
	}
}
