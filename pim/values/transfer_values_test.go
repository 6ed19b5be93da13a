package values

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	pimmachine "github.com/l3sim/l3sim/pim/machine"
)

// zeroVectors returns vectors like those given, without their values.
func zeroVectors(like [][]uint16) [][]uint16 {
	out := make([][]uint16, len(like))
	for i := range out {
		out[i] = make([]uint16, len(like[i]))
	}
	return out
}

// replayTransfer runs a head that a transfer interrupts, in values and under the
// checker. Heads behind the first are computed after the transfer.
func replayTransfer(t parts.T, m *valueMachine, spec *pim.Spec, d *dram.Spec, heads []pimmachine.Head, data []headData, transfer *pimmachine.Transfer, hosts [2][][]uint16) []headResult {
	t.Helper()
	clock, err := pimmachine.NewMachine(spec, d)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pimmachine.NewProgram(spec, d, m.shape, heads)
	if err != nil {
		t.Fatal(err)
	}
	transfer.Geometry = p.Geometry
	clock.Refresh.On = true
	clock.Receive(transfer, 20)
	results, err := replayed(m, clock, p, data, hosts)
	if err != nil {
		t.Fatal(err)
	}
	if clock.Receiver.End == 0 {
		t.Fatal("the transfer did not run")
	}
	return results
}

// Attention reads the keys and values that a transfer stores, command by command with refresh: the
// same bits as with every token stored by the mapping. Read back, they equal what was sent.
func TestTransfersMoveValues(t *testing.T) {
	latent := pim.HeadShape{HeadDim: 576, ValueDim: 512, Queries: 1, ElementBits: 16}
	d := parts.DDR4(t)
	for _, c := range []struct {
		shape  pim.HeadShape
		tokens int
	}{{halfHead, 16}, {halfHead, 512}, {latent, 113}, {halfHead, 8192}, {halfHead, 32_768}} {
		shape, tokens := c.shape, c.tokens
		if tokens > 512 && !deep.On() {
			continue
		}
		spec := pim.Default()
		heads := []pimmachine.Head{{Context: 100, Appends: true}, {Context: tokens, FirstRow: 2}}
		r := rand.New(rand.NewPCG(uint64(tokens), 1))
		g, err := pim.NewGeometry(d, shape)
		if err != nil {
			t.Fatal(err)
		}
		k, v := randomVectors(r, StoreFP16, tokens, shape.HeadDim, 1), randomVectors(r, StoreFP16, tokens, shape.ValueWidth(), 1)
		short, shortValues := randomVectors(r, StoreFP16, 100, shape.HeadDim, 1), randomVectors(r, StoreFP16, 100, shape.ValueWidth(), 1)
		data := []headData{
			{query: randomVectors(r, StoreFP16, 1, shape.HeadDim, 1), key: short[99], value: shortValues[99]},
			{query: randomVectors(r, StoreFP16, 1, shape.HeadDim, 1)},
		}
		machine := func(stored int) *valueMachine {
			m, err := newValueMachine(spec, d, shape, StoreFP16, 2+g.Rows(tokens))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 99 {
				parts.Must(t, m.store(0, i, short[i], shortValues[i]))
			}
			for i := range stored {
				parts.Must(t, m.store(2, i, k[i], v[i]))
			}
			return m
		}
		p, err := pimmachine.NewProgram(spec, d, shape, heads)
		if err != nil {
			t.Fatal(err)
		}
		want, err := machine(tokens).run(p, data)
		if err != nil {
			t.Fatal(err)
		}
		m := machine(0)
		got := replayTransfer(t, m, spec, d, heads, data, &pimmachine.Transfer{FirstRow: 2, Tokens: tokens}, [2][][]uint16{k, v})
		for i := range heads {
			if !slices.EqualFunc(got[i].out[0], want[i].out[0], sameBits) {
				t.Errorf("%d tokens: head %d gives other values than with its tokens stored one by one", tokens, i)
			}
		}
		backK, backV := zeroVectors(k), zeroVectors(v)
		replayTransfer(t, m, spec, d, heads[:1], data[:1], &pimmachine.Transfer{FirstRow: 2, Tokens: tokens, ReadBack: true}, [2][][]uint16{backK, backV})
		for i := range k {
			if !slices.Equal(k[i], backK[i]) || !slices.Equal(v[i], backV[i]) {
				t.Fatalf("%d tokens: token %d comes back as another", tokens, i)
			}
		}
	}
}

// The same for any part of a head, on any part and shape: a transfer leaves in the cells exactly
// what Store leaves.
func TestTransfersFillTheCells(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		spec, d := pim.Default(), drawWidth(t, 4, 8, 16)
		shape := pim.HeadShape{HeadDim: rapid.SampledFrom([]int{8, 33, 64, 80, 128, 200, 256}).Draw(t, "d"), Queries: 1, ElementBits: 16}
		if rapid.IntRange(0, 2).Draw(t, "value") == 0 { // part of the key
			shape.ValueDim, shape.ValueInKey = rapid.IntRange(8, shape.HeadDim).Draw(t, "value d"), true
		}
		first, tokens := rapid.IntRange(0, 700).Draw(t, "first"), rapid.IntRange(1, 600).Draw(t, "tokens")
		g, err := pim.NewGeometry(d, shape)
		if err != nil {
			t.Fatal(err)
		}
		rows := 2 + g.Rows(first+tokens)
		machines := [2]*valueMachine{}
		for i := range machines {
			if machines[i], err = newValueMachine(spec, d, shape, StoreFP16, rows); err != nil {
				t.Fatal(err)
			}
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
		k, v := randomVectors(r, StoreFP16, first+tokens, shape.HeadDim, 1), randomVectors(r, StoreFP16, first+tokens, shape.HeadDim, 1)
		zero := make([]uint16, shape.HeadDim)
		data := []headData{{query: randomVectors(r, StoreFP16, 1, shape.HeadDim, 1)}}
		for i := range machines {
			if err := machines[i].store(0, 0, zero, zero); err != nil {
				t.Fatal(err)
			}
		}
		for i := first; i < first+tokens; i++ {
			if err := machines[0].store(2, i, k[i], v[i]); err != nil {
				t.Fatal(err)
			}
		}
		transfer := &pimmachine.Transfer{FirstRow: 2, First: first, Tokens: tokens}
		replayTransfer(t, machines[1], spec, d, []pimmachine.Head{{Context: 1}, {Context: 1}}, append(data, data[0]), transfer, [2][][]uint16{k, v})
		for c := range machines[0].chips {
			if !slices.Equal(machines[0].chips[c].cells, machines[1].chips[c].cells) {
				t.Fatalf("chip %d holds something else after the transfer", c)
			}
		}
		backK, backV := zeroVectors(k), zeroVectors(v)
		transfer.ReadBack = true
		replayTransfer(t, machines[1], spec, d, []pimmachine.Head{{Context: 1}, {Context: 1}}, append(data, data[0]), transfer, [2][][]uint16{backK, backV})
		for i := first; i < first+tokens; i++ {
			if !slices.Equal(k[i], backK[i]) || !shape.ValueInKey && !slices.Equal(v[i], backV[i]) {
				t.Fatalf("token %d comes back as another", i)
			}
		}
	})
}
