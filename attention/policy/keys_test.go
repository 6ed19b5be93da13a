package policy

import (
	"reflect"

	"github.com/l3sim/l3sim/input/schema"
)

// keys has the keys of any policy in one place, so that a test sets and compares those that its policy has under
// one name. Those of other policies are 0.
type keys struct {
	Name, Gates, Profile                                                            string
	Budget, Page, LogicalPage, Reuse, SkipLayers, Sink, Window, PrefillWindow       int
	TopKLatency, Block, PromptQueries, PinSinks                                     int
	Subspaces, Centroids, Iterations, RecentTokens, Period                          int
	StaticSparsity, Heavy, Recent, Beta, Alpha, Share, TableShare, SelectShare      float64
	Newest, StreamDevice, SelectDevice, SelectGroup, SelectPrecision, SummaryDevice string
	Layout, Weight, Search, Mode                                                    string
	KeepAll                                                                         bool
}

// newKeys returns a policy's defaults.
func newKeys(name string) *keys {
	k, s := &keys{Name: name}, New(name)
	k.each(&s, func(own, of reflect.Value) { own.Set(of) })
	return k
}

// each visits the policy's keys, in k and in a section.
func (k *keys) each(s *Spec, visit func(own, of reflect.Value)) {
	for _, key := range schema.Of[Spec]().Section(k.Name) {
		if own := reflect.ValueOf(k).Elem().FieldByName(key.Field); own.IsValid() {
			visit(own, key.Get(s))
		}
	}
}

// spec returns the section with these keys.
func (k *keys) spec() *Spec {
	s := New(k.Name)
	s.Gates, s.Profile = k.Gates, k.Profile
	k.each(&s, func(own, of reflect.Value) { of.Set(own) })
	return &s
}

// has says that the policy has a key.
func (k *keys) has(key string) bool { return schema.Of[Spec]().Key(k.Name+"."+key) != nil }
