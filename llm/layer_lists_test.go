package llm

import "testing"

// TestLayersOfGPTNeo: groups of attention types follow each other in their order, each repeated as often as it says.
func TestLayersOfGPTNeo(t *testing.T) {
	for types, want := range map[string]string{
		`"attention_types": [[["global"], 2], [["local", "global"], 1], [["local"], 1]]`:                             "GGLGL",
		`"attention_types": [[["local"], 1], [["global"], 4]]`:                                                       "LGGGG",
		`"attention_layers": ["global", "local", "local", "global", "global"]`:                                       "GLLG",
		`"attention_layers": ["local", "global", "global", "global", "global"], "attention_types": [[["local"], 5]]`: "LGGGG",
	} {
		m, err := FromHuggingFace([]byte(`{"model_type": "gpt_neo", "hidden_size": 64, "num_layers": 5, "num_heads": 4, "vocab_size": 9, "max_position_embeddings": 9, "window_size": 6, ` + types + `}`))
		if err != nil {
			t.Errorf("%s: %v", types, err)
			continue
		}
		if m.LayerPattern != want || m.Window != 6 {
			t.Errorf("%s: layers %s with a window of %d, want %s", types, m.LayerPattern, m.Window, want)
		}
	}
}

// TestPartsOfParallel: which parts are whole on one GPU and on several, by the parallelism of attention and experts.
func TestPartsOfParallel(t *testing.T) {
	for _, c := range []struct {
		gpus        int
		p           Parallel
		data, whole bool
		shards      int
	}{
		{1, Parallel{AttentionParallel: DataAttention, ExpertParallel: true}, false, false, 1},
		{2, Parallel{AttentionParallel: DataAttention, ExpertParallel: true}, true, true, 1},
		{2, Parallel{AttentionParallel: DataAttention}, true, false, 2},
		{8, Parallel{AttentionParallel: TensorAttention, ExpertParallel: true}, false, false, 1},
		{8, Parallel{}, false, false, 8},
	} {
		m := &Model{TensorParallel: c.gpus, Parallel: c.p}
		if m.DataParallel() != c.data || m.WholeNetworks() != c.whole || m.expertShards() != c.shards {
			t.Errorf("%d GPUs, %+v: data parallel %t, whole networks %t, experts over %d", c.gpus, c.p, m.DataParallel(), m.WholeNetworks(), m.expertShards())
		}
	}
}
