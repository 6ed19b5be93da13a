package policies

import (
	"reflect"
	"strings"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// keys has the keys of all policies in one place, so that a test sets and compares those of its policy by name.
// Keys of other policies are 0.
type keys struct {
	Name, Gates, Profile                                                            string
	Budget, Page, LogicalPage, Reuse, SkipLayers, Sink, Window, PrefillWindow       int
	TopKLatency, Block, PromptQueries, PinSinks                                     int
	Subspaces, Centroids, Iterations, RecentTokens, Period                          int
	StaticSparsity, Heavy, Recent, Beta, Alpha, Share, TableShare, SelectShare      float64
	TokenOverlap, ListOverlap                                                       float64
	Newest, StreamDevice, SelectDevice, SelectGroup, SelectPrecision, SummaryDevice string
	Layout, Weight, Search, Mode                                                    string
	KeepAll                                                                         bool
}

// specSchema describes a Spec of a list.
func specSchema(l *policy.List) *schema.Schema {
	sections := l.Sections()
	for i := range sections {
		sections[i].Name = strings.TrimPrefix(sections[i].Name, "policy.")
	}
	return schema.With[policy.Spec](sections...)
}

// newKeys returns a policy's defaults.
func newKeys(name string) *keys {
	k, s := &keys{Name: name}, New(name)
	k.each(func(own reflect.Value, key *schema.Key) { own.Set(key.Get(&s)) })
	return k
}

// each visits the policy's keys, in k and by name.
func (k *keys) each(visit func(own reflect.Value, key *schema.Key)) {
	for _, key := range specSchema(Builtin()).Section(k.Name) {
		if own := reflect.ValueOf(k).Elem().FieldByName(key.Field); own.IsValid() {
			visit(own, &key)
		}
	}
}

// spec returns the section with these keys.
func (k *keys) spec() *policy.Spec {
	s := New(k.Name)
	s.Gates, s.Profile = k.Gates, k.Profile
	k.each(func(own reflect.Value, key *schema.Key) { key.Set(&s, own) })
	return &s
}

// keysOf returns the section of a policy.
func keysOf[T input.Checked](k *keys) *T {
	own := policy.Section[T](k.spec())
	return &own
}

// listsOf returns the lists of pages of a policy that has some.
func listsOf(k *keys) Pages {
	if k.Name == "quest" {
		return keysOf[QuestSpec](k).Lists()
	}
	return keysOf[LServeSpec](k).Lists()
}

// has says that the policy has a key.
func (k *keys) has(key string) bool { return specSchema(Builtin()).Key(k.Name+"."+key) != nil }
