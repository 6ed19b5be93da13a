package memory

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"pgregory.net/rapid"
)

// tally recounts the memory of live reservations: units in use by rank and reserved tokens by
// offset.
func tally(spec *LedgerSpec, live []Reservation) (units []int64, tokens []int) {
	units, tokens = make([]int64, spec.Ranksets), make([]int, spec.Ranksets)
	for _, r := range live {
		tokens[r.Offset] += r.Tokens
		if spec.Channels > 0 {
			for rank, n := range tallyDealt(spec, r) {
				units[rank] += n
			}
			continue
		}
		for layer := range spec.Layers {
			rank := r.Offset
			if spec.Rotation {
				rank = (r.Offset + layer) % spec.Ranksets
			}
			for left := r.Tokens; left > 0 && spec.Classes == nil; left -= spec.UnitTokens {
				units[rank] += int64(spec.HeadsPerChannel)
			}
			held := tallyClasses(spec.Classes, spec.UnitBytes, r.Prompt, r.Tokens)
			if r.Filling {
				held = max(held, tallyClasses(spec.Filling, spec.UnitBytes, r.Prompt, r.Prompt))
			}
			units[rank] += held
		}
	}
	return units, tokens
}

// tallyDealt counts the units of a request on the fullest channel of each rankset, if heads are dealt one by one.
func tallyDealt(spec *LedgerSpec, r Reservation) (units []int64) {
	on, next := make([][]int64, spec.Ranksets), make([]int, spec.Ranksets)
	each := int64(0)
	for left := r.Tokens; left > 0 && spec.Classes == nil; left -= spec.UnitTokens {
		each++
	}
	held := tallyClasses(spec.Classes, spec.UnitBytes, r.Prompt, r.Tokens)
	if r.Filling {
		held = max(held, tallyClasses(spec.Filling, spec.UnitBytes, r.Prompt, r.Prompt))
	}
	for layer := range spec.Layers {
		rank := r.Offset
		if spec.Rotation {
			rank = (r.Offset + layer) % spec.Ranksets
		}
		if on[rank] == nil {
			on[rank] = make([]int64, spec.Channels)
		}
		for range spec.Heads {
			on[rank][next[rank]%spec.Channels] += each + held
			next[rank]++
		}
	}
	for _, channels := range on {
		most := int64(0)
		if channels != nil {
			most = slices.Max(channels)
		}
		units = append(units, most)
	}
	return units
}

// tallyClasses counts the units of classes of heads token by token.
func tallyClasses(classes []HeadClass, unit int64, prompt, tokens int) (units int64) {
	for _, c := range classes {
		of := tokens
		if c.OfPrompt {
			of = prompt
		}
		if c.AfterPrompt {
			of = tokens - prompt
		}
		n := 0
		for token := range of - min(c.Skip, 0) {
			if token >= c.Skip {
				n++
			}
		}
		if c.Share > 0 {
			kept := 0
			for float64(kept) < c.Share*float64(n) {
				kept++
			}
			n = kept
		}
		if c.Most > 0 && n > c.Most {
			n = c.Most
		}
		for left := int64(n) * c.TokenBytes; left > 0; left -= unit {
			units += int64(c.Heads)
		}
	}
	return units
}

func fitsAll(units []int64, capacity int64) bool {
	for _, u := range units {
		if u > capacity {
			return false
		}
	}
	return true
}

// TestLedgerLaws reserves, grows and releases at random. Each succeeds exactly if every rank has
// room. Least-loaded takes the first offset with the fewest tokens among those with room. What is
// in use is what the live reservations hold.
func TestLedgerLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		spec := LedgerSpec{
			Ranksets: 1 + rng.IntN(4), Layers: 1 + rng.IntN(9), HeadsPerChannel: 1 + rng.IntN(3), UnitTokens: 8,
			Capacity: int64(1 + rng.IntN(300)), Rotation: rng.IntN(2) == 1,
		}
		if rng.IntN(2) == 1 {
			spec.UnitBytes = int64(1 + rng.IntN(100))
			spec.Classes = []HeadClass{
				{Heads: spec.HeadsPerChannel, TokenBytes: int64(1 + rng.IntN(20)), Skip: rng.IntN(9) - 3, Most: rng.IntN(40)},
				{Heads: rng.IntN(3), TokenBytes: int64(1 + rng.IntN(20)), OfPrompt: true, Share: rng.Float64()},
				{Heads: rng.IntN(3), TokenBytes: int64(1 + rng.IntN(20)), AfterPrompt: true, Most: rng.IntN(40)},
			}
			if rng.IntN(2) == 1 {
				spec.Filling = []HeadClass{{Heads: spec.HeadsPerChannel, TokenBytes: int64(1 + rng.IntN(20))}}
			}
		}
		if rng.IntN(3) == 0 {
			spec.Heads, spec.Channels, spec.HeadsPerChannel = 1+rng.IntN(20), 1+rng.IntN(20), 1
			for i := range spec.Classes {
				spec.Classes[i].Heads = 1
			}
			for i := range spec.Filling {
				spec.Filling[i].Heads = 1
			}
		}
		l := NewLedger(spec)
		var live []Reservation
		for range 60 {
			var one int
			if len(live) > 0 {
				one = rng.IntN(len(live))
			}
			switch op := rng.IntN(5); {
			case op == 0 && len(live) > 0:
				l.Release(live[one])
				live = append(live[:one], live[one+1:]...)
			case op == 1 && len(live) > 0:
				tokens := live[one].Tokens + rng.IntN(30)
				after := append([]Reservation(nil), live...)
				for ; after[one].Tokens < tokens || after[one].Tokens%spec.UnitTokens > 0 && tokens > live[one].Tokens; after[one].Tokens++ {
				}
				if units, _ := tally(&spec, after); !fitsAll(units, spec.Capacity) && spec.Classes != nil {
					after[one].Tokens = max(tokens, live[one].Tokens) // no more than asked for
				}
				if units, _ := tally(&spec, after); !fitsAll(units, spec.Capacity) {
					after[one] = live[one]
				}
				if got, want := l.Grow(&live[one], tokens), after[one].Tokens >= tokens; got != want || live[one] != after[one] {
					t.Fatalf("growing to %d tokens: %v, %+v, want %v, %+v", tokens, got, live[one], want, after[one])
				}
			case op == 2 && len(live) > 0:
				l.Settle(&live[one])
				if live[one].Filling {
					t.Fatal("a prompt that has ended still fills memory")
				}
			default:
				tokens, keep := 1+rng.IntN(60), int64(rng.IntN(10))
				_, held := tally(&spec, live)
				best := -1
				for offset := range spec.Ranksets {
					units, _ := tally(&spec, append(live[:len(live):len(live)], Reservation{Offset: offset, Length: Prompted(tokens), Filling: true}))
					units = touched(&spec, units, offset)
					if fitsAll(units, spec.Capacity-keep) && (best < 0 || held[offset] < held[best]) {
						best = offset
					}
				}
				r, ok := l.Reserve(Prompted(tokens), nil, keep, nil)
				if ok != (best >= 0) || ok && r.Offset != best {
					t.Fatalf("reserved %+v, %v, want offset %d; %v tokens by offset", r, ok, best, held)
				}
				if ok {
					live = append(live, r)
				}
			}
			units, _ := tally(&spec, live)
			var sum int64
			for _, u := range units {
				sum += u
			}
			if l.Used() != sum {
				t.Fatalf("%d units in use, want %d", l.Used(), sum)
			}
		}
	})
}

// touched returns the units of the ranks on which a request of an offset has layers.
func touched(spec *LedgerSpec, units []int64, offset int) []int64 {
	if !spec.Rotation {
		return units[offset : offset+1]
	}
	var of []int64
	for k := range min(spec.Layers, spec.Ranksets) {
		of = append(of, units[(offset+k)%spec.Ranksets])
	}
	return of
}

func TestLedger(t *testing.T) {
	// 5 layers on 2 ranksets: three on the request's first rankset, two on the
	// other. 40 tokens of 32 a unit, 3 heads: 2 units a head and layer.
	spec := LedgerSpec{Ranksets: 2, Layers: 5, HeadsPerChannel: 3, UnitTokens: 32, Capacity: 30, Rotation: true}
	l := NewLedger(spec)
	r, ok := l.Reserve(Prompted(40), nil, 0, nil)
	if !ok || r.Offset != 0 || l.used[0] != 18 || l.used[1] != 12 {
		t.Fatalf("got %+v, %v, used %v, want offset 0 and 18, 12 units", r, ok, l.used)
	}
	if got := l.UnitsOf(40); got != 30 {
		t.Errorf("40 tokens take %d units in all layers, want 30", got)
	}
	if got, want := l.Fragmentation(0), 1-40.0/64; got != want {
		t.Errorf("fragmentation %v, want %v", got, want)
	}
	if got, want := l.Fragmentation(8*int64(l.heads)), 1-32.0/64; got != want {
		t.Errorf("fragmentation with 8 tokens to come %v, want %v", got, want)
	}
	if l.Grow(&r, 64); l.Used() != 30 || r.Tokens != 64 {
		t.Errorf("growing within the rows in use takes %d units", l.Used())
	}
	if l.Grow(&r, 129) || l.Used() != 30 { // 5 units a head: 45 on the first rankset
		t.Error("a reservation grew beyond the capacity")
	}
	// A second one only fits with its three layers on the other rankset.
	if r, ok := l.Reserve(Prompted(40), nil, 0, nil); !ok || r.Offset != 1 || l.used[0] != 30 || l.used[1] != 30 {
		t.Fatalf("got %+v, %v, used %v, want offset 1 and 30, 30 units", r, ok, l.used)
	}
	if _, ok := l.Reserve(Prompted(1), nil, 0, nil); ok {
		t.Error("a full memory has room")
	}
	if !l.FitsEmpty(Prompted(96)) || l.FitsEmpty(Prompted(97)) { // 27 and 36 of 30 units on the fuller rankset
		t.Error("an empty memory holds 96 tokens and no more")
	}
	l.Release(r)
	if l.Used() != 30 {
		t.Errorf("%d units in use after a release, want 30", l.Used())
	}
	spec.Rotation = false
	l = NewLedger(spec)
	if r, ok := l.Reserve(Prompted(40), nil, 0, nil); !ok || l.used[0] != 30 || l.used[1] != 0 {
		t.Errorf("without rotation %+v takes %v, want all on one rankset", r, l.used)
	}
	if _, ok := l.Reserve(Prompted(40), nil, 1, nil); ok {
		t.Error("a reservation does not leave what it has to")
	}
}

func TestBalancePolicies(t *testing.T) {
	offsets := func(balance string, n int) []int {
		l := NewLedger(LedgerSpec{Ranksets: 3, Layers: 3, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 1 << 30, Rotation: true})
		var got []int
		for i := range n {
			l.PlaceBy(balance, rand.New(rand.NewPCG(7, uint64(i))))
			r, _ := l.Reserve(Prompted(100+100*i), nil, 0, nil)
			got = append(got, r.Offset)
		}
		return got
	}
	if got := offsets(scheduler.BalanceRoundRobin, 5); !slices.Equal(got, []int{0, 1, 2, 0, 1}) {
		t.Errorf("round-robin: %v", got)
	}
	// 100, 200, 300 on 0, 1, 2; then 400 joins 100, 500 joins 200, 600 joins 300.
	if got := offsets(scheduler.BalanceLeastLoaded, 6); !slices.Equal(got, []int{0, 1, 2, 0, 1, 2}) {
		t.Errorf("least-loaded: %v", got)
	}
	count := [3]int{}
	for _, offset := range offsets(scheduler.BalanceRandom, 300) {
		count[offset]++
	}
	for offset, n := range count {
		if n < 70 || n > 130 {
			t.Errorf("random: offset %d is drawn %d times of 300", offset, n)
		}
	}
}
