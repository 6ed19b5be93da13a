package batching

import (
	"reflect"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// spared returns a scheduler with room for home tokens on ranks. Its spare memory has room for near tokens, beside the longest prompt
// and activations of as many tokens.
func spared(subBatches, home, near int, p schedtest.Linear, requests ...traces.Request) *Scheduler {
	m, longest := schedtest.SmallModel, 0
	for _, r := range requests {
		longest = max(longest, r.Input)
	}
	l := func(tokens int) *memory.Ledger {
		return memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: m.Layers, HeadsPerChannel: m.KVHeads, UnitTokens: 1, Capacity: int64(tokens * m.Layers * m.KVHeads)})
	}
	free := m.ActivationBytes(1000) + units.Bytes(subBatches*longest+near)*m.KVBytesPerToken()
	unit := m.KVBytesPerToken() / units.Bytes(m.Layers*m.KVHeads)
	gpu := memory.GPU{Model: m, Free: free, Spare: l(int(free / m.KVBytesPerToken())), SpareUnit: unit, HomeUnit: unit}
	c := Config{
		Policy: scheduler.PolicySubBatches, Scheduler: &scheduler.Spec{SubBatches: subBatches, Chunking: true, ChunkMultiple: 1, MinPrefillTokens: 1000},
		Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal}, Comm: &scheduler.CommSpec{Balance: scheduler.BalanceSplit}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 1000},
	}
	return New(c, Memories{Ledger: l(home), GPU: gpu}, requests, FormerOf(c.Policy, p))
}

// TestChoiceOfMemory: where a request of 10 prompt tokens goes. The others have 10 tokens each, and 19 in the end; at half of their output all attend over 14 (9 output tokens have keys and values: 10 + 4).
// A single sub-batch takes its GPUs' fixed time, a token's for each row, and the longer of ranks and GPUs, which attend at once.
func TestChoiceOfMemory(t *testing.T) {
	for _, c := range []struct {
		name       string
		subBatches int
		room       [2]int // tokens on ranks and in the spare memory
		p          schedtest.Linear
		want       []bool // of four requests, whether each is in the spare memory
	}{
		// Ranks take 14·5 for one request, the GPUs 14. All go to the GPUs; then ranks and GPUs balance at 5:1.
		{"slow ranks", 1, [2]int{1000, 1000}, schedtest.Linear{GPUFixed: 100, PIMToken: 5, NearToken: 1}, []bool{true, true, true, true}},
		{"slow GPUs", 1, [2]int{1000, 1000}, schedtest.Linear{GPUFixed: 100, PIMToken: 1, NearToken: 5}, []bool{false, false, false, false}},
		// Equally fast: the first has no reason to leave the ranks, and the second's time is hidden by
		// the first's.
		{"both alike", 1, [2]int{1000, 1000}, schedtest.Linear{GPUFixed: 100, PIMToken: 2, NearToken: 2}, []bool{false, true, false, true}},
		{"no room to spare", 1, [2]int{1000, 18}, schedtest.Linear{GPUFixed: 100, PIMToken: 5, NearToken: 1}, []bool{false, false, false, false}},
		{"room for one", 1, [2]int{1000, 20}, schedtest.Linear{GPUFixed: 100, PIMToken: 5, NearToken: 1}, []bool{true, false, false, false}},
		// Two sub-batches keep the GPUs busy: 2·1000 is more than 1000 + 14·5, and the GPUs' attention adds to it.
		{"busy GPUs", 2, [2]int{1000, 1000}, schedtest.Linear{GPUFixed: 1000, PIMToken: 5, NearToken: 1}, []bool{false, false, false, false}},
		// Two requests fill the ranks. With the third, three tokens take 100 + 14 + 28, 47.3 each; two take 100 + 28, 64
		// each.
		{"full ranks", 1, [2]int{38, 1000}, schedtest.Linear{GPUFixed: 100, PIMToken: 1, NearToken: 2}, []bool{false, false, true, true}},
		// With the third, three tokens take 100 + 14·6, 61.3 each. At their full 19 tokens it would be 100 + 114 for three, while
		// two take 69 each.
		{"at half of the output", 1, [2]int{38, 1000}, schedtest.Linear{GPUFixed: 100, PIMToken: 1, NearToken: 6}, []bool{false, false, true}},
		// Two requests fill the ranks, and a third takes 14·20 on the GPUs: (100 + 280)/3 is more than (100 +
		// 28)/2.
		{"better to wait", 1, [2]int{38, 1000}, schedtest.Linear{GPUFixed: 100, PIMToken: 1, NearToken: 20}, []bool{false, false}},
	} {
		s := spared(c.subBatches, c.room[0], c.room[1], c.p, request(0, 10, 10), request(1, 10, 10), request(2, 10, 10), request(3, 10, 10))
		addAll(s, 4)
		b := s.Next()
		var got []bool
		for i := range 4 {
			for k := range b.Sub {
				for _, p := range b.Sub[k].Prefill {
					if int(p.Request) == i {
						got = append(got, p.Near)
					}
				}
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %d requests have memory, want %d", c.name, len(got), len(c.want))
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: in the spare memory %v, want %v", c.name, got, c.want)
				break
			}
		}
		schedtest.MustHold(t, s.CheckMemory())
	}
}

// TestPromptsKeepTheGPUsBusy: if GPUs must prefill at the rate at which requests end, they leave decoding to ranks while
// others wait.
func TestPromptsKeepTheGPUsBusy(t *testing.T) {
	serve := func(waiting int) (near bool) {
		requests := []traces.Request{request(0, 100, 11)}
		for i := range waiting {
			requests = append(requests, request(1+i, 100, 11))
		}
		// Two requests decode on ranks, and all attend over 105 tokens at half of their output. In a sub-batch with one of them, the third
		// takes 2·60 + max(5·105, 105) = 645 in the spare memory, and 2·60 + 2·5·105 = 1170 on the rankset. But if others wait, an iteration
		// prefills 100/10 tokens for each of two: the GPUs take 3·60 + 20·60 = 1380, and 105 more with the third in the spare memory.
		s := spared(2, 100_000, 1000, schedtest.Linear{GPUToken: 60, PIMToken: 5, NearToken: 1}, requests...)
		for i := range 2 {
			s.Requests, s.Holds = append(s.Requests, request(9, 100, 11)), append(s.Holds, memory.Reservation{Length: memory.Length{Prompt: 100, Tokens: 110}})
			s.Decoding = append(s.Decoding, scheduler.Decoding{Request: int32(len(requests) + i), Base: 100, Last: 10, Prompt: 100})
		}
		addAll(s, len(requests))
		return s.Next().Sub[1].Prefill[0].Near
	}
	if !serve(0) || serve(3) {
		t.Errorf("alone in the spare memory: %v, with others that wait: %v", serve(0), serve(3))
	}
}

// inTheMiddle makes the GPUs take a picosecond for each pair of a prompt token and a token before
// its chunk.
type inTheMiddle struct{ schedtest.Linear }

func (inTheMiddle) GPU(s *scheduler.SubBatch, _ int64) (t units.Duration) {
	for i := range s.Prefill {
		t += units.Duration(s.Prefill[i].Tokens * s.Prefill[i].Finished)
	}
	return t
}

// TestPriceOfPrompts: prompts have 300 tokens on average, and an iteration prefills 10 tokens for each of the two running requests. They cost
// what chunks in their middle cost: 100 tokens after 100, or 20 after 140. Short ones begin with the chunk.
func TestPriceOfPrompts(t *testing.T) {
	for chunk, want := range map[int]units.Duration{100: 20 * 100, 20: 20 * 140, 300: 0, 1000: 0} {
		s := spared(1, 10_000, 10_000, schedtest.Linear{}, request(0, 300, 31), request(1, 200, 21), request(2, 400, 11), request(3, 900, 11))
		s.Scheduler.MinPrefillTokens = chunk
		for i := range int32(2) {
			s.Decoding = append(s.Decoding, scheduler.Decoding{Request: i, Base: int64(s.Requests[i].Input), Last: 100})
			s.Holds[i].Length = memory.Length{Prompt: s.Requests[i].Input, Tokens: s.Requests[i].Input}
		}
		s.Add(2)
		s.Add(3) // waits behind it
		w := s.Queue.First()
		f := &dealer{predictor: inTheMiddle{}}
		s.expect(w)
		if got, running := f.gather(&s.State, w); got != want || running != 2 {
			t.Errorf("chunks of %d: %d ps for %d requests, by hand %d", chunk, got, running, want)
		}
	}
}

// TestGatheredContexts: a request that runs attends over the tokens that it has at half of its output, or over its present tokens if these
// are more: 320 for 300 and 30, 210 for 200 and 20, and 405 for a prompt of 400 with an output of 10. Those in the spare memory are
// counted apart.
func TestGatheredContexts(t *testing.T) {
	s := spared(2, 10_000, 10_000, schedtest.Linear{}, request(0, 300, 31), request(1, 200, 21), request(2, 400, 11), request(3, 900, 11))
	s.Batch.Step = 7
	for i, context := range []int64{320, 200} {
		s.Decoding = append(s.Decoding, scheduler.Decoding{Request: int32(i), Base: context - 7, Last: 100})
		s.Holds[i].Length = memory.Length{Prompt: s.Requests[i].Input, Tokens: s.Requests[i].Input}
	}
	s.Holds[1].Near = true
	s.Add(2)
	s.Add(3)
	if !s.Reserve(s.Queue.First(), false) {
		t.Fatal("no memory for a prompt")
	}
	f := &dealer{predictor: inTheMiddle{}}
	w := s.Queue.At(1)
	s.expect(w)
	_, running := f.gather(&s.State, w)
	var ranks, near []int
	for i := range f.subs {
		for k := range f.subs[i].Decode {
			ranks = append(ranks, f.subs[i].Decode[k].Context(7))
		}
		for k := range f.subs[i].Near {
			near = append(near, f.subs[i].Near[k].Context(7))
		}
	}
	if running != 3 || !slices.Equal(ranks, []int{320, 405}) || !slices.Equal(near, []int{210}) {
		t.Errorf("%d run: %v on ranks, %v in the spare memory", running, ranks, near)
	}
}

// TestWaitsForSpareMemory: the spare memory has room for one of three requests, each as in TestChoiceOfMemory, and the GPUs take 98 + 14
// for it. With another on ranks, two tokens take 98 + 14 times a token's time there. At 9 this is 2·112, not longer, so the request goes
// to ranks. At 10 it waits until the spare memory is free again, and so does the one behind it.
func TestWaitsForSpareMemory(t *testing.T) {
	for _, c := range []struct {
		rule string
		rank units.Duration // a token's time on ranks
		want []bool         // the requests that run, whether each is in the spare memory
	}{
		{scheduler.SpareWait, 9, []bool{true, false}},
		{scheduler.SpareWait, 10, []bool{true}},
		{scheduler.SpareDecode, 10, []bool{true, false, false}},
	} {
		s := spared(1, 1000, 20, schedtest.Linear{GPUFixed: 98, PIMToken: c.rank, NearToken: 1}, request(0, 10, 10), request(1, 10, 10), request(2, 10, 10))
		s.Memory.Spare = c.rule
		addAll(s, 3)
		var got []bool
		for _, p := range s.Next().Sub[0].Prefill {
			got = append(got, p.Near)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q, %d a token on ranks: in the spare memory %v, want %v", c.rule, c.rank, got, c.want)
		}
		if err := s.CheckAdmission(); err != nil || s.Queue.Blocked != (len(got) < 3) || s.Ledger.Used() != int64(len(got)-1)*19*int64(schedtest.SmallModel.Layers*schedtest.SmallModel.KVHeads) {
			t.Errorf("%q, %d a token on ranks: blocked %v, %d units used on ranks, %v", c.rule, c.rank, s.Queue.Blocked, s.Ledger.Used(), err)
		}
		if c.rule == scheduler.SpareWait && len(got) == 1 {
			s.GPU.Spare = one(1)
			if err := s.CheckAdmission(); err == nil {
				t.Error("a request waits for an empty memory, and no law says so")
			}
		}
	}
}

// TestFullRanksBesideSpareMemory: a decoding request fills the ranks, and the spare memory has room for both that wait. After the first,
// which the ranks refused, the second is tried, too.
func TestFullRanksBesideSpareMemory(t *testing.T) {
	s := spared(1, 20, 1000, schedtest.Linear{GPUFixed: 98, PIMToken: 1, NearToken: 1}, request(0, 10, 10), request(1, 10, 10), request(2, 10, 10))
	s.hold(t, 0, 19, false)
	s.Add(1)
	s.Add(2)
	var got []int32
	for _, p := range s.Next().Sub[0].Prefill {
		if got = append(got, p.Request); !p.Near {
			t.Errorf("request %d is on ranks", p.Request)
		}
	}
	if !slices.Equal(got, []int32{1, 2}) || s.Queue.Blocked {
		t.Errorf("requests %v begin, blocked %v", got, s.Queue.Blocked)
	}
}

// TestSpareMemoryEmpties: a request that the spare memory suits better goes to ranks only while another one is there.
func TestSpareMemoryEmpties(t *testing.T) {
	serve := func(fixed units.Duration) bool {
		var requests []traces.Request
		for i := range 7 {
			requests = append(requests, request(i, 100, 1))
		}
		s := spared(2, 10_000, 1000, schedtest.Linear{GPUFixed: fixed, PIMToken: 10, NearToken: 20}, requests...)
		s.Scheduler.Adaptive = true
		for i := 1; i < 7; i++ { // five on ranks, the last in the spare memory
			l := s.Ledger
			if i == 6 {
				l = s.GPU.Spare
			}
			s.Holds[i], _ = l.Reserve(memory.Prompted(100), nil, 0, nil)
			s.Holds[i].Near = i == 6
			s.Decoding = append(s.Decoding, scheduler.Decoding{Request: int32(i), Base: 100, Last: 500, Prompt: 100})
		}
		addAll(s, 1)
		sub := s.Next().Sub
		return append(sub[0].Prefill, sub[1].Prefill...)[0].Near
	}
	// All requests attend over 100 tokens. At a fixed time of 4900, a single batch takes 4900 + 5·1000 with two in the spare memory, and 4900
	// + 6·1000 with one. Two sub-batches take 2·4900 + 2000 with one there, and 2·4900 with none, the shortest. At 6000, a single batch with
	// two takes 11000, and two sub-batches with none 12000.
	if serve(4900) || !serve(6000) {
		t.Errorf("in the spare memory: with short fixed times %v, with long ones %v", serve(4900), serve(6000))
	}
}

// TestFewLongOutputs: requests that outlast all ended ones do not raise the expected outputs of others. Prompts arrive at the rate
// at which requests end, and keep the GPUs busy.
func TestFewLongOutputs(t *testing.T) {
	serve := func(ended, output int) bool {
		requests := []traces.Request{request(0, 100, 11), request(1, 100, 11), request(2, 100, 11), request(3, 100, 5000), request(4, 100, 5000)}
		s := spared(2, 100_000, 1000, schedtest.Linear{GPUToken: 60, PIMToken: 5, NearToken: 1}, requests...)
		spec := &scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 10_000, History: 100}
		s.Memory, s.outputs = spec, memory.NewOutputs(spec)
		for range ended {
			s.Learn(output)
		}
		for i := range 2 { // both have emitted 20 tokens
			s.Holds[3+i], _ = s.Ledger.Reserve(memory.Prompted(120), nil, 0, nil)
			s.Decoding = append(s.Decoding, scheduler.Decoding{Request: int32(3 + i), Base: 120, Last: 5000, Prompt: 100})
		}
		addAll(s, 3)
		return s.Next().Sub[1].Prefill[0].Near
	}
	// Outputs have (20·10 + 2·20)/20 = 12 tokens, so an iteration prefills 100/12 tokens for each of two. On the rankset, the third
	// request attends over 106 tokens in a sub-batch of 2·60 + 5·226 = 1250, longer than the GPUs' 3·60 + 16.7·60 = 1180. With it in the
	// spare memory, the GPUs take 1286. If outputs are longer or unknown, the GPUs have time for it.
	for _, c := range []struct {
		ended, output int
		want          bool
	}{{20, 10, false}, {20, 100, true}, {0, 0, true}} {
		if got := serve(c.ended, c.output); got != c.want {
			t.Errorf("%d requests ended with %d tokens: in the spare memory %v, want %v", c.ended, c.output, got, c.want)
		}
	}
}

// TestEmittedTokens: emitted tokens count for requests that decode, that prefill again, and for the one to
// admit.
func TestEmittedTokens(t *testing.T) {
	s := spared(1, 1000, 1000, schedtest.Linear{}, request(0, 10, 50), request(1, 12, 50), request(2, 10, 50))
	s.Batch.Step = 5
	s.Decoding = []scheduler.Decoding{{Request: 0, Base: 12}}
	s.chunked = []Waiting{{Request: 1, Prompt: 15, Emitted: 3}}
	if got := s.emitted(&Waiting{Request: 2, Prompt: 30, Emitted: 20}); got != 7+3+20 {
		t.Errorf("%d tokens, want 30", got)
	}
	if got := s.emitted(&s.chunked[0]); got != 7+3 {
		t.Errorf("%d tokens, want 10", got)
	}
}

// TestMakeRoomInSpareMemory: a request that grows in the full spare memory takes the memory of the latest request there, prompts
// first. Requests on ranks keep theirs, except prompts behind it in the queue.
func TestMakeRoomInSpareMemory(t *testing.T) {
	var requests []traces.Request
	for i := range 6 {
		requests = append(requests, request(i, 10, 5))
	}
	s := spared(1, 1000, 1000, schedtest.Linear{}, requests...)
	hold := func(near bool) memory.Reservation {
		l := s.Ledger
		if near {
			l = s.GPU.Spare
		}
		r, _ := l.Reserve(memory.Prompted(10), nil, 0, nil)
		r.Near = near
		return r
	}
	// Requests 0 to 2 decode, 0 and 1 in the spare memory. Of 3 and 4, which prefill, 3 is there; 5 waits.
	s.Batch.Step = 3
	s.Decoding = []scheduler.Decoding{{Request: 2, Base: 8, Last: 6}, {Request: 1, Base: 8, Last: 6}, {Request: 0, Base: 8, Last: 6}}
	s.Holds[0], s.Holds[1], s.Holds[2] = hold(true), hold(true), hold(false)
	s.Queue.list = []Waiting{
		{}, {}, {}, {Request: 3, Prompt: 10, finished: 4, held: true, Hold: hold(true)}, {Request: 4, Prompt: 10, held: true, Hold: hold(false)}, {Request: 5, Prompt: 10},
	}
	s.Queue.head = 3
	all := s.GPU.Spare.Used() / 3
	for i, want := range []struct {
		request int32
		near    int64 // requests in the spare memory
		home    int64
	}{{3, 2, 1}, {1, 1, 1}, {0, 0, 1}} {
		if got := s.makeRoomNear(); got != want.request || s.GPU.Spare.Used() != want.near*all || s.Ledger.Used() != want.home*all {
			t.Errorf("%d: request %d gave up its memory, %d and %d units are left; want %+v", i, got, s.GPU.Spare.Used(), s.Ledger.Used(), want)
		}
	}
	if got := s.makeRoom(); got != 2 || s.Ledger.Used() != 0 {
		t.Errorf("request %d gave up its memory on the ranks", got)
	}
	for i, w := range s.Queue.list[s.Queue.head:] { // by arrival, though the ranks lost request 2 after the spare memory had lost older ones
		if w.Request != int32(i) || w.held {
			t.Errorf("place %d of the queue: %+v, want request %d", i, w, i)
		}
	}
	if err := s.checkOrder(); err != nil {
		t.Error(err)
	}
}

// TestGrowthLeavesRoom: a request in the spare memory grows as long as activations, and keys and values of cut prompts, fit beside it.
func TestGrowthLeavesRoom(t *testing.T) {
	s := spared(1, 1000, 0, schedtest.Linear{}, request(0, 10, 50))
	m := schedtest.SmallModel
	s.Memory.Admission = scheduler.AdmitCurrent
	r, _ := s.GPU.Spare.Reserve(memory.Prompted(10), nil, 0, nil)
	r.Near = true
	s.Holds[0] = r
	s.Decoding = []scheduler.Decoding{{Request: 0, Base: 11, Last: 50, Prompt: 10}}
	s.Usage.cutPrompts = int((s.GPU.Free-m.ActivationBytes(1))/m.KVBytesPerToken()) - 13
	for step, want := range []bool{true, true, true, false} { // 11, 12 and 13 tokens
		if s.Batch.Step = int64(step); s.grow(0) != want {
			t.Errorf("step %d: grows %v, want %v", step, !want, want)
		}
	}
	s.Usage.cutPrompts--
	if !s.grow(0) {
		t.Error("no growth into the room that a prompt left")
	}
}

// TestGrowthTakesItsOwnMemory: if the spare memory is full, growth there takes nothing from the ranks.
func TestGrowthTakesItsOwnMemory(t *testing.T) {
	s := spared(1, 1000, 1000, schedtest.Linear{}, request(0, 10, 50), request(1, 10, 50), request(2, 10, 50))
	for i, near := range []bool{true, true, false} {
		l := s.Ledger
		if near {
			l = s.GPU.Spare
		}
		s.Holds[i], _ = l.Reserve(memory.Prompted(10), nil, 0, nil)
		s.Holds[i].Near = near
		s.Decoding = append(s.Decoding, scheduler.Decoding{Request: int32(i), Base: 11, Last: 50, Prompt: 10})
	}
	m := schedtest.SmallModel
	s.Usage.cutPrompts = int((s.GPU.Free-m.ActivationBytes(3))/m.KVBytesPerToken()) - 20
	s.Batch.Step = 0
	s.GrowAll(func() int32 { t.Error("the ranks are asked"); return s.makeRoomNear() })
	if len(s.Decoding) != 2 || s.Decoding[0].Request != 0 || s.Holds[0].Tokens != 11 || s.Decoding[1].Request != 2 || s.Holds[2].Tokens != 11 {
		t.Errorf("%+v decode", s.Decoding)
	}
}

// TestSingleBatchOfBothMemories: requests of the spare memory run with the others when two sub-batches run as one.
func TestSingleBatchOfBothMemories(t *testing.T) {
	for fixed, want := range map[units.Duration][2]int{1000: {2, 0}, 1: {1, 1}} { // each sub-batch reads all weights
		s := spared(2, 1000, 1000, schedtest.Linear{GPUFixed: fixed, GPUToken: 10, PIMToken: 10, NearToken: 1}, request(0, 10, 9), request(1, 10, 9), request(2, 10, 9), request(3, 10, 9))
		s.Scheduler.Adaptive = true
		for i := range 4 {
			s.Holds[i].Near = i%2 == 0
			s.Decoding = append(s.Decoding, scheduler.Decoding{Request: int32(i), Base: 11, Last: 50, Prompt: 10})
		}
		f := s.former.(*subBatches)
		f.deal(&s.State)
		f.adapt(&s.State)
		for i := range s.Batch.Sub {
			if sub := &s.Batch.Sub[i]; len(sub.Near) != want[i] || len(sub.Decode) != want[i] {
				t.Errorf("fixed time %d: sub-batch %d has %d and %d requests, want %d of each", fixed, i, len(sub.Decode), len(sub.Near), want[i])
			}
		}
	}
}

// TestPromptOfSpareMemory: the first chunk of a prompt for the spare memory reserves nothing beside it and is moved
// nowhere.
func TestPromptOfSpareMemory(t *testing.T) {
	for _, near := range []bool{true, false} {
		p := schedtest.Linear{GPUToken: 1, PIMToken: 5, NearToken: 1}
		if !near {
			p.NearToken = 50
		}
		s := spared(1, 5000, 5000, p, request(0, 1500, 10))
		addAll(s, 1)
		sub, cut, moved := &s.Next().Sub[0], 1500, 1000
		if near {
			cut, moved = 0, 0
		}
		if sub.PrefillTokens() != 1000 || s.Usage.cutPrompts != cut || sub.MovedTokens() != moved {
			t.Errorf("near %v: of %d tokens %d move, %d of cut prompts stay", near, sub.PrefillTokens(), sub.MovedTokens(), s.Usage.cutPrompts)
		}
	}
}

// TestForecastOfSpareMemory: its forecast is of the requests there, with those that prefill, and of the outputs that have
// ended.
func TestForecastOfSpareMemory(t *testing.T) {
	s := spared(1, 1000, 1000, schedtest.Linear{}, request(0, 10, 50), request(1, 10, 50), request(2, 12, 50), request(3, 13, 50))
	spec := &scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 60, History: 9, Margin: 1}
	s.Memory, s.near.forecast, s.forecast = spec, memory.NewForecast(spec, 1), memory.NewForecast(spec, 1)
	s.Learn(7)
	s.Holds[0], s.Holds[1] = memory.Reservation{Near: true, Length: memory.Prompted(20)}, memory.Reservation{Length: memory.Prompted(20)}
	s.Decoding = []scheduler.Decoding{{Request: 0, Base: 14}, {Request: 1, Base: 15}}
	s.chunked = []Waiting{{Request: 2, Prompt: 12, Hold: memory.Reservation{Near: true}}}
	s.Batch.Step = 0
	want := memory.NewForecast(spec, 1)
	want.Ended(7)
	for _, r := range [][2]int{{10, 4}, {12, 0}, {13, 0}} {
		want.Add(0, r[0], r[1])
	}
	want.Foresee(s.GPU.Spare)
	if got := s.foreseeNear(&Waiting{Request: 3, Prompt: 13}); !reflect.DeepEqual(got, want) {
		t.Error("the forecast is of other requests")
	}
}

// TestFitsBesideSpare: memory that requests hold in the spare memory is not free for activations and
// prompts.
func TestFitsBesideSpare(t *testing.T) {
	s := spared(1, 1000, 100, schedtest.Linear{}, request(0, 10, 50))
	m, g := schedtest.SmallModel, &s.GPU
	most := int((g.Free - m.ActivationBytes(5)) / m.KVBytesPerToken())
	if !g.Fits(5, most) || g.Fits(5, most+1) {
		t.Fatalf("%d tokens are not the most", most)
	}
	g.Spare.Reserve(memory.Prompted(30), nil, 0, nil)
	if !g.Fits(5, most-30) || g.Fits(5, most-29) || g.BesideSpare(0, 30) != g.Spare.Used() || s.UsedUnits() != g.Spare.Used() {
		t.Errorf("beside 30 tokens: %v, %v; %d units, %d and %d in use", g.Fits(5, most-30), g.Fits(5, most-29), g.BesideSpare(0, 30), g.Spare.Used(), s.UsedUnits())
	}
}

// TestWholePromptRuns: a prompt that is not cut has activations of all its tokens. It goes to the spare memory only if these fit beside
// its own keys and values. Otherwise it would hold that memory and never begin.
func TestWholePromptRuns(t *testing.T) {
	m := schedtest.SmallModel
	const prompt = 100
	activations, kv := m.ActivationBytes(prompt), prompt*m.KVBytesPerToken()
	for _, c := range []struct {
		free units.Bytes // of the GPUs
		near bool
	}{{activations + 2*kv + kv, true}, {activations + kv/2, false}} {
		s := spared(1, 1000, 0, schedtest.Linear{GPUFixed: 100, PIMToken: 5, NearToken: 1}, request(0, prompt, 1))
		s.Scheduler.Chunking, s.Batching.MaxBatchTokens = false, 1
		s.GPU.Free = c.free
		s.GPU.Spare = memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: m.Layers, HeadsPerChannel: m.KVHeads, UnitTokens: 1, Capacity: int64(c.free / s.GPU.SpareUnit)})
		s.Add(0)
		s.near.longest = 0 // room for other prompts is not what this one needs
		b := s.Next()
		if len(b.Sub[0].Prefill) != 1 || b.Sub[0].Prefill[0].Tokens != prompt || b.Sub[0].Prefill[0].Near != c.near {
			t.Errorf("%d bytes free: %+v, want %d tokens, in the spare memory: %v", c.free, b.Sub[0].Prefill, prompt, c.near)
		}
		schedtest.MustHold(t, s.CheckMemory())
	}
}
