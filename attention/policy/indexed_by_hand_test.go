package policy

import (
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
)

// TestIndexedByHand: the first policy that uses a model's own indexer, and what a Spec says about the policy in use.
func TestIndexedByHand(t *testing.T) {
	l := toys(t)
	if own := l.Own(); own != "" {
		t.Errorf("no policy needs an indexer, but %s", own)
	}
	second, third := *l.policy("dense"), *l.policy("dense")
	second.Name, second.Indexed, second.Dense = "second", true, false
	third.Name, third.Indexed, third.Dense = "third", true, false
	l, err := l.With(second, third)
	if err != nil {
		t.Fatal(err)
	}
	dense, indexed, drafts := l.New("dense"), l.New("third"), l.New("pages")
	if l.Own() != "second" || dense.Indexed() || !indexed.Indexed() || !dense.Dense() || indexed.Dense() || dense.Drafts() || !drafts.Drafts() {
		t.Errorf("own %s; indexed %v %v, dense %v %v, drafts %v %v", l.Own(), dense.Indexed(), indexed.Indexed(), dense.Dense(), indexed.Dense(), dense.Drafts(), drafts.Drafts())
	}
	var unknown Spec
	unknown.Name = "none"
	if unknown.Indexed() || unknown.Dense() || unknown.Drafts() {
		t.Error("a policy that there is not is indexed, dense or drafts")
	}
}

// TestKeysThatCannotBe: a struct that cannot be a section of keys is refused with the policy's name.
func TestKeysThatCannotBe(t *testing.T) {
	p := *toys(t).policy("heads")
	p.Name, p.Source, p.Keys, p.Defaults = "mine", "a paper", wrong{}, "c = 1\n"
	if _, err := toys(t).With(p); err == nil || !strings.HasPrefix(err.Error(), `policy "mine": Keys: two fields of policy.wrong `) {
		t.Errorf("got %v", err)
	}
}

// wrong has two fields with the same key.
type wrong struct {
	A int `toml:"c"`
	B int `toml:"c"`
}

func (wrong) Check(*input.Check) {}

// TestWindowsByHand: layers with a window may have other heads; unset values are those of the other
// layers.
func TestWindowsByHand(t *testing.T) {
	s := Shape{KVHeads: 4, Dim: 128, ElementBits: 16, LayerKinds: llm.LayerKinds{WindowKVHeads: 2, WindowHeadDim: 64}}
	if got := s.InWindows(); got.KVHeads != 2 || got.Dim != 64 || s.KVHeads != 4 {
		t.Errorf("got %+v", got)
	}
	s.WindowKVHeads = 0
	if got := s.InWindows(); got.KVHeads != 4 || got.Dim != 64 {
		t.Errorf("got %+v", got)
	}
	if s.Elements(3) != 6 || s.Token() != 512 {
		t.Errorf("%d bytes of three elements, %d of a token", s.Elements(3), s.Token())
	}
	s.KVBits, s.KVScaleBytes, s.Value = 4, 4, 64
	if s.Token() != 64+4+32+4 {
		t.Errorf("%d bytes of a narrow token", s.Token())
	}
	if s.Latent = true; s.Token() != 68 {
		t.Errorf("%d bytes of a latent", s.Token())
	}
	if s.ElementBits = 4; s.Elements(3) != 2 {
		t.Errorf("three elements of 4 bits are %d bytes", s.Elements(3))
	}
}

// TestDefaultsOfOthers: a Spec that no list has made has its defaults and keeps its own name.
func TestDefaultsOfOthers(t *testing.T) {
	l := toys(t)
	s := Spec{Name: "pages"}
	if got := s.of(l); got.Name != "pages" || !reflect.DeepEqual(got.Sections, l.defaults.Sections) || len(s.Sections) != 0 {
		t.Errorf("got %+v", got)
	}
	made := l.New("pages")
	if made.of(l) != &made {
		t.Error("a Spec of the list is copied")
	}
}
