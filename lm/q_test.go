package lm

import (
	"fmt"
	"math"
	"testing"
)

type spy struct {
	a  attender
	t  *testing.T
	at int
	q  [6][]float32
	o  [6][]float32
}

func (s *spy) attend(layer int, lanes []*lane) error {
	for _, l := range lanes {
		if l.position == s.at {
			s.q[layer] = append([]float32{}, l.qkv[0]...)
		}
	}
	err := s.a.attend(layer, lanes)
	for _, l := range lanes {
		if l.position == s.at {
			s.o[layer] = append([]float32{}, l.attended...)
		}
	}
	return err
}

func TestQ(t *testing.T) {
	m := builtin(t, 2)
	n := 8192
	h := newHost(m, []int{n}, true)
	s := &spy{a: h, at: n - 1}
	lanes := make([]*lane, 256)
	for i := range lanes {
		lanes[i] = m.newLane()
	}
	kv, f := reference(t, "kv16.nll"), reference(t, "f32.nll")
	var worst, rms, rms2, worst2 float64
	for p := 0; p < n; p += 256 {
		for i, l := range lanes {
			l.position, l.token, l.withLogits = p+i, SampleText()[p+i], true
		}
		if err := m.forward(lanes, s); err != nil {
			t.Fatal(err)
		}
		for i, l := range lanes {
			e := NLL(l.logits, SampleText()[p+i+1]) - float64(kv[p+i])
			worst = max(worst, math.Abs(e))
			rms += e * e
			if math.Abs(e) > 2.5e-3 {
				t.Log("host", p+i, e, f[p+i]-kv[p+i], kv[p+i])
			}
			e = float64(f[p+i] - kv[p+i])
			worst2 = max(worst2, math.Abs(e))
			rms2 += e * e
		}
	}
	t.Log("ours-kv16", worst, math.Sqrt(rms/8192), "f32-kv16", worst2, math.Sqrt(rms2/8192))
	for l := range 6 {
		for _, what := range []string{"q_last", "attention_out_last"} {
			mine := s.q[l]
			if what != "q_last" {
				mine = s.o[l]
			}
			f, k := reference(t, fmt.Sprintf("f32.layer%d.%s", l, what)), reference(t, fmt.Sprintf("kv16.layer%d.%s", l, what))
			w, w2 := 0.0, 0.0
			for i := range f {
				w = max(w, math.Abs(float64(mine[i]-k[i])))
				w2 = max(w2, math.Abs(float64(f[i]-k[i])))
			}
			t.Log(l, what, "ours-kv16", w, "f32-kv16", w2)
		}
	}
}
