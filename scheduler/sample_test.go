package scheduler

import "testing"

func TestSampleSet(t *testing.T) {
	s := &SubBatch{
		Decode:  []Decoding{{Base: 10}, {Base: -5}},
		Prefill: []Chunk{{Tokens: 32, Finished: 64}, {Tokens: 16}},
	}
	m := Sample{FC: 5, PIM: 6, Chunks: []ChunkSample{{Time: 9}}}
	m.Set(s, 100, 48)
	if m.Contexts != 110+95 || m.Decoding != 2 || m.PrefillTokens != 48 || m.PrefillMoved != 48 || m.FC != 0 || m.PIM != 0 {
		t.Errorf("got %+v", m)
	}
	if len(m.Chunks) != 2 || m.Chunks[0] != (ChunkSample{Tokens: 32, Finished: 64}) || m.Chunks[1] != (ChunkSample{Tokens: 16}) {
		t.Errorf("got chunks %+v", m.Chunks)
	}
}
