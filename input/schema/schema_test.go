package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/units"
)

// Shape is embedded: its keys are those of the struct around it.
type Shape struct {
	Rows  int `toml:"rows" json:"height"`
	tRows int
}

type part struct {
	Name string `toml:"name,omitempty" json:"-"`
	Shape
	Clock  units.Duration `toml:"tCK" json:"clock"`
	Hidden int            `toml:"-"`
	NoTag  int
	Power  struct {
		VDD   float64 `toml:"VDD"`
		Inner struct {
			On bool `toml:"on"`
		} `toml:"inner"`
	} `toml:"power" json:"power"`
	Seed uint64 `toml:"seed"`
}

func TestWalk(t *testing.T) {
	v := part{Shape: Shape{Rows: 7, tRows: 1}, Clock: 625}
	v.Power.Inner.On = true
	s := Of[part]()
	want := []string{"name", "rows", "tCK", "power.VDD", "power.inner.on", "seed"}
	if !slices.Equal(s.Names(), want) {
		t.Errorf("got %v, want %v", s.Names(), want)
	}
	if Of[part]() != s {
		t.Error("a schema is made twice")
	}
	for name, value := range map[string]any{"rows": 7, "tCK": units.Duration(625), "power.inner.on": true, "power.VDD": 0.0} {
		k := s.Key(name)
		if k == nil || !reflect.DeepEqual(k.Get(&v).Interface(), value) || k.Type != reflect.TypeOf(value) {
			t.Errorf("%s: got %+v, want %v", name, k, value)
		}
	}
	if k := s.Key("rows"); k.Owner != reflect.TypeFor[Shape]() || k.Field != "Rows" {
		t.Errorf("rows is %s of %s", k.Field, k.Owner)
	}
	var names []string
	for _, k := range Walk(reflect.TypeFor[part](), "json") {
		names = append(names, k.Name)
	}
	if want := []string{"height", "clock"}; !slices.Equal(names, want) {
		t.Errorf("by json: got %v, want %v", names, want)
	}
	if s.Key("power") != nil || s.Key("power.vdd") != nil || s.Key("Hidden") != nil || !s.IsSection("power.inner") || s.IsSection("rows") {
		t.Error("sections are no keys, and keys no sections")
	}
	if keys := s.Section("power"); len(keys) != 2 || keys[1].Name != "power.inner.on" {
		t.Errorf("got %v", keys)
	}
}

// TestOptional: a key may be missing if it is optional, or with a whole section that is.
func TestOptional(t *testing.T) {
	type inner struct {
		Must int  `toml:"must"`
		May  bool `toml:"may,optional"`
	}
	for _, k := range Of[struct {
		A     inner  `toml:"a"`
		B     inner  `toml:"b,omitempty"`
		Share uint64 `toml:"share,omitzero"`
		Outer struct {
			First  inner `toml:"first,omitempty"`
			Second inner `toml:"second,omitempty"`
		} `toml:"outer,optional"`
	}]().Keys {
		want := map[string][]string{"a.may": {"a.may"}, "b.must": {"b."}, "b.may": {"b.", "b.may"}, "share": {"share"},
			"outer.first.must": {"outer.", "outer.first."}, "outer.first.may": {"outer.", "outer.first.", "outer.first.may"},
			"outer.second.must": {"outer.", "outer.second."}, "outer.second.may": {"outer.", "outer.second.", "outer.second.may"}}[k.Name]
		if !slices.Equal(k.Optional, want) {
			t.Errorf("%s: %q, want %q", k.Name, k.Optional, want)
		}
	}
}

func TestUnknown(t *testing.T) {
	s := Of[part]()
	for name, want := range map[string]string{
		"row":                  `row: expected a key of a known section; did you mean "rows"?`,
		"power.vdd":            `power.vdd: expected a key of [power]; did you mean "power.VDD"?`,
		"power.tck":            `power.tck: expected a key of [power]; did you mean "tCK"?`,
		"power.inner":          `power.inner: expected a key of the section, such as power.inner.on`,
		"powr.x":               `powr.x: expected a key of a known section; did you mean "power"?`,
		"nothing.like":         `nothing.like: expected a key of one of the sections power, power.inner`,
		"power.abcdefghijklmn": `power.abcdefghijklmn: expected a key of [power]`,
	} {
		if got := s.Unknown(name).Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	flat := Of[struct {
		A int `toml:"page"`
	}]()
	if got, want := flat.Unknown("pag").Error(), `pag: expected a known key; did you mean "page"?`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for name, want := range map[string][2]string{"a": {"", "a"}, "a.b": {"a", "b"}, "a.b.c": {"a.b", "c"}, ".a": {"", "a"}} {
		if section, last := Split(name); section != want[0] || last != want[1] {
			t.Errorf("%s: %q, %q", name, section, last)
		}
	}
}

// TestParse: texts as --set, sweeps and logs give them.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want any
	}{
		{"7", 7}, {"-7", -7}, {"+7", 7}, {"0x10", 16}, {"1_000", 1000}, {"0", 0}, {"0", uint64(0)}, {"7", uint64(7)}, {"9223372036854775807", uint64(math.MaxInt64)},
		{"1e3", 1000}, {"2E+2", uint64(200)}, {"1.5", 1.5}, {"2", 2.0}, {"1e3", 1000.0}, {"true", true}, {"false", false},
		{"bare text", "bare text"}, {`"quoted"`, "quoted"}, {`'literal'`, "literal"}, {`"a\tb"`, "a\tb"}, {"7", "7"}, {"true", "true"}, {"", ""}, {`"`, `"`}, {`"a" b`, `"a" b`},
		{"625ps", units.Duration(625)}, {`"1us"`, units.Microsecond}, {"2 TiB", 2 * units.TiB}, {"25.6GB/s", units.Bandwidth(25.6e9)}, {"1TFLOP/s", units.FLOPRate(1e12)},
	} {
		got, bad := Parse(reflect.TypeOf(c.want), c.text)
		if bad != nil || got.Interface() != c.want {
			t.Errorf("%q as %T: got %v, %v", c.text, c.want, got, bad)
		}
	}
	for _, c := range []struct {
		text string
		of   any
		want string
	}{
		{"1.5e0", 0, "1.5: expected a whole number"}, {"1e-3", 0, "0.001: expected a whole number"},
		{"seven", 0, `"seven": expected a whole number`}, {"7.0", 0, "7.0: expected a whole number"}, {"1e20", 0, "1e+20: expected a whole number"},
		{"99999999999999999999", 0, "expected a whole number"}, {"-1", uint64(0), "-1: expected a whole number, 0 to"}, {"007", 0, "expected a whole number"},
		{"300", int8(0), "300: expected a whole number"}, {"300", uint8(0), "300: expected a whole number"},
		{"inf", 0.0, "expected a finite number"}, {"nan", 0.0, "expected a finite number"}, {"1e39", float32(0), "expected a finite number"}, {"[1]", 0.0, "an array: expected a finite number"},
		{"1", true, "1: expected true or false"}, {"{a = 1}", 0, "a table: expected a whole number"},
		{"625", units.Duration(0), `"625" is not a duration`}, {`"625"`, units.Duration(0), `"625" is not a duration`}, {"0.5ps", units.Duration(0), "not a whole number of ps"},
		{"1", []int{}, "type []int cannot be configured"},
	} {
		_, bad := Parse(reflect.TypeOf(c.of), c.text)
		if bad == nil || !strings.Contains(bad.Error(), c.want) {
			t.Errorf("%q as %T: got %v, want %s", c.text, c.of, bad, c.want)
		}
	}
}

// TestConvert: what the TOML decoder gives for a key of another type is refused, and the error says what was expected.
func TestConvert(t *testing.T) {
	for _, c := range []struct {
		value, of any
		want      string
	}{
		{int64(3), "", "3: expected a string"}, {true, "", "true: expected a string"}, {"x", false, `"x": expected true or false`}, {"x", 0, `"x": expected a whole number`}, {1.5, uint8(0), "1.5: expected a whole number, 0 to "},
		{"x", 0.5, `"x": expected a finite number`}, {int64(625), units.Duration(0), `"625" is not a duration`},
	} {
		if _, err := Convert(reflect.TypeOf(c.of), c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v as %T: %v, want %s", c.value, c.of, err, c.want)
		}
	}
	for _, c := range [][2]any{{"x", "x"}, {true, true}, {int64(3), int8(3)}, {int64(3), uint64(3)}, {int64(3), 3.0}, {0.5, 0.5}, {"1ns", units.Nanosecond}} {
		if got, err := Convert(reflect.TypeOf(c[1]), c[0]); err != nil || got.Interface() != c[1] {
			t.Errorf("%v as %T: %v, %v", c[0], c[1], got, err)
		}
	}
}

// TestNearestOfASection: the suggested key is the most similar one of the section.
func TestNearestOfASection(t *testing.T) {
	s := With[struct{ More []any }](Section{"first", reflect.TypeFor[part]()}, Section{"second", reflect.TypeFor[part]()})
	for name, want := range map[string]string{"second.nmae": "second.name", "second.rwos": "second.rows", "first.sed": "first.seed", "second.seeds": "second.seed", "first.tCK_": "first.tCK", "first.x": ""} {
		if got := s.nearest(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestFault: a section is a struct whose keys can all be set and have different names.
func TestQuantities(t *testing.T) {
	for texts, want := range map[[2]string][2]any{
		{"1ns", "2us"}: {units.Nanosecond, 2 * units.Microsecond}, {"1KiB", "3B"}: {units.KiB, units.Bytes(3)}, {"1GB/s", "2MB/s"}: {units.Bandwidth(1e9), units.Bandwidth(2e6)},
		{"1ns", "2B"}: {}, {"1", "2"}: {}, {"1ns", "x"}: {}, {"x", "1ns"}: {},
	} {
		x, y, ok := Quantities(texts[0], texts[1])
		if ok != (want[0] != nil) || ok && (x.Interface() != want[0] || y.Interface() != want[1]) {
			t.Errorf("%q: %v, %v, %v", texts, x, y, ok)
		}
	}
}

// TestCalledByOthers: a name without a section stands for the keys that end with it, in any case, or else for the one that others call so.
func TestCalledByOthers(t *testing.T) {
	s := With[struct{ More []any }](Section{"first", reflect.TypeFor[part]()}, Section{"second", reflect.TypeFor[part]()})
	s.Others = map[string]string{"lines": "first.rows", "seed": "first.tCK"}
	for name, want := range map[string]string{"lines": "first.rows", "LINES": "first.rows", "Seed": "first.seed second.seed", "tck": "first.tCK second.tCK", "line": ""} {
		if got := strings.Join(s.Called(name), " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestFault: a section is a struct whose keys can all be set, each under a name of its own.
func TestFault(t *testing.T) {
	type inner struct {
		Depth int `toml:"depth"`
	}
	type Shared struct {
		Width int `toml:"width"`
	}
	for _, c := range []struct {
		of   any
		want string
	}{
		{nil, "expected a struct, not <nil>"}, {3, "expected a struct, not int"}, {&inner{}, "expected a struct, not *schema.inner"},
		{inner{}, ""}, {struct{ inner }{}, ""}, {struct {
			Shared
			*strings.Builder
			Deep inner `toml:"deep"`
			note string
		}{note: "no key"}, ""},
		{struct {
			deep inner `toml:"deep"`
		}{inner{}}, "field Depth of"},
		{struct {
			A int `toml:"width"`
			Shared
		}{}, "have the toml tag width"},
	} {
		var text string
		if err := Fault(reflect.TypeOf(c.of)); err != nil {
			text = err.Error()
		}
		if (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%T: got %q, want %q", c.of, text, c.want)
		}
	}
}

// TestSet sets keys of a struct and of unknown sections, which copies share until one of them changes.
func TestSet(t *testing.T) {
	type extra struct {
		Depth int `toml:"depth"`
	}
	type open struct {
		Before int `toml:"before"`
		More   []any
		After  int `toml:"after"`
	}
	s := With[open](Section{"first", reflect.TypeFor[extra]()}, Section{"second", reflect.TypeFor[part]()})
	want := []string{"before", "first.depth", "second.name", "second.rows", "second.tCK", "second.power.VDD", "second.power.inner.on", "second.seed", "after"}
	if !slices.Equal(s.Names(), want) || !s.IsSection("second.power") || !s.IsSection("first") {
		t.Errorf("got %v", s.Names())
	}
	old := open{More: []any{extra{1}, part{}}}
	is := old
	for key, text := range map[string]string{"before": "3", "first.depth": "7", "second.tCK": "1ns", "second.power.inner.on": "true", "after": "4"} {
		if err := s.Set(&is, key, text); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if p := is.More[1].(part); is.Before != 3 || is.After != 4 || is.More[0] != (extra{7}) || p.Clock != units.Nanosecond || !p.Power.Inner.On {
		t.Errorf("got %+v", is)
	}
	if old.Before != 0 || old.More[0] != (extra{1}) || old.More[1] != (part{}) {
		t.Errorf("the original is now %+v", old)
	}
	var changed []string
	for _, k := range s.Changed(&old, &is) {
		changed = append(changed, k.Name)
	}
	if want := []string{"before", "first.depth", "second.tCK", "second.power.inner.on", "after"}; !slices.Equal(changed, want) {
		t.Errorf("changed %v", changed)
	}
	for key, text := range map[string]string{"second.tCK": "1", "first.deep": "1"} {
		if err := s.Set(&is, key, text); err == nil || !strings.HasPrefix(err.Error(), key) || is.More[0] != (extra{7}) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestScalarIsTOML: values that are read without the decoder equal the decoder's.
func TestScalarIsTOML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`"?[ -~]{0,6}"?`), rapid.StringMatching(`[0-9]{1,20}`), rapid.StringMatching(`"[a-z"\\.]{0,5}"`),
			rapid.SampledFrom([]string{"true", "false", "True", "00", "01", "1.", ".1", `""`, `"""a"""`})).Draw(t, "text")
		var document struct{ V any }
		meta, err := toml.Decode("V = "+text, &document)
		got, ok := scalar(text)
		if legal := err == nil && len(meta.Keys()) == 1; ok != legal {
			t.Fatalf("%q: read %t, TOML %t (%v)", text, ok, legal, err)
		}
		if ok && !reflect.DeepEqual(got, document.V) {
			t.Fatalf("%q: got %#v, want %#v", text, got, document.V)
		}
	})
}

// TestTextRoundTrip: Parse reads the output of Text and Literal, and Literal writes as the TOML encoder
// does.
func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, value := range []any{
			rapid.Int().Draw(t, "int"), rapid.Uint64Max(math.MaxInt64).Draw(t, "uint"), rapid.Bool().Draw(t, "bool"),
			rapid.Float64Range(-1e18, 1e18).Draw(t, "float"), units.Bytes(rapid.Int64().Draw(t, "bytes")),
			units.Duration(rapid.Int64().Draw(t, "time")), rapid.StringMatching(`[ -~]{0,8}`).Draw(t, "text"),
			rapid.String().Draw(t, "any text"), math.Round(rapid.Float64Range(-1e7, 1e7).Draw(t, "whole")),
		} {
			literal, ok := Literal(value)
			back, bad := Parse(reflect.TypeOf(value), literal)
			if !ok || bad != nil || back.Interface() != value {
				t.Fatalf("%#v: literal %s, %v, %v", value, literal, back, bad)
			}
			if text, err := toml.Marshal(map[string]any{"v": value}); err != nil || string(text) != "v = "+literal+"\n" {
				t.Fatalf("%#v: literal %s, encoder %s, %v", value, literal, text, err)
			}
			if _, isText := value.(string); isText {
				continue // may be in quotes itself
			}
			if back, bad := Parse(reflect.TypeOf(value), Text(reflect.ValueOf(value))); bad != nil || back.Interface() != value {
				t.Fatalf("%#v: text %s, %v, %v", value, Text(reflect.ValueOf(value)), back, bad)
			}
		}
	})
	for _, value := range []any{nil, []int{1}, struct{}{}, map[string]any{}} {
		if text, ok := Literal(value); ok {
			t.Errorf("%v: %s", value, text)
		}
	}
	for text, want := range map[string]string{`"a"`: "a", "a": "a", "7": "7", `"7"`: "7", "": ""} {
		if got := Plain(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestWritten(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{{"a", `"a"`}, {4.0, "4.0"}, {4.5, "4.5"}, {1e30, "1e+30"}, {math.Inf(1), "+Inf"}, {int64(4), "4"}, {true, "true"}, {[]any{1}, "an array"},
		{map[string]any{}, "a table"}, {[]map[string]any{}, "a table"}} {
		if got := Written(c.value); got != c.want {
			t.Errorf("%v: got %s, want %s", c.value, got, c.want)
		}
	}
}

// TestUnits: the number in a column is the quantity divided by its unit.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		value  any
		suffix string
		number float64
		takes  string
	}{
		{units.Bytes(5), "_bytes", 5, "bytes"}, {2 * units.Nanosecond, "_ns", 2, "time"}, {units.Bandwidth(3e9), "_GB_per_s", 3, "bytes a second"},
		{units.FLOPRate(4e12), "_TFLOP_per_s", 4, "operations a second"}, {7, "", 7, "whole number"}, {uint64(7), "", 7, "whole number"}, {0.5, "", 0.5, "number"},
		{"x", "", 0, "text"}, {true, "", 0, "true or false"},
	} {
		v := reflect.ValueOf(c.value)
		u, ok := UnitOf(v.Type())
		if ok != (c.suffix != "") || u.Suffix != c.suffix || !strings.HasPrefix(Takes(v.Type()), c.takes) {
			t.Errorf("%v: %+v, takes %s", c.value, u, Takes(v.Type()))
		}
		if v.Kind() == reflect.String || v.Kind() == reflect.Bool {
			continue
		}
		if got := Number(v) / max(u.Size, 1); got != c.number {
			t.Errorf("%v: got %v, want %v", c.value, got, c.number)
		}
		if IsQuantity(v.Type()) != ok || IsText(v.Type()) != ok {
			t.Errorf("%v: a quantity %t, text %t", c.value, IsQuantity(v.Type()), IsText(v.Type()))
		}
	}
	// json.Number has a kind of its own and no unit.
	if !IsText(reflect.TypeFor[json.Number]()) || fmt.Sprint(Text(reflect.ValueOf(1e21))) != "1000000000000000000000" {
		t.Error("text")
	}
}

// TestFormer: of the former names that match a key, the longest counts; a section's former name stands for all its keys.
func TestFormer(t *testing.T) {
	s := With[part]()
	s.Former = []Former{{Name: "rank.height", Now: "rows"}, {Name: "rank.", Now: "power."}, {Name: "rank.fan.", Use: "leave it out"}}
	for name, want := range map[string]string{
		"rank.height": "rank.height: was renamed to rows", "rank.VDD": "rank.VDD: was renamed to power.VDD", "rank": "rank: was renamed to power",
		"rank.fan": "rank.fan: was removed: leave it out", "rank.fan.speed": "rank.fan.speed: was removed: leave it out", "ranks": `ranks: expected a key of one of the sections power, power.inner`,
		"rank.height.x": "rank.height.x: was renamed to power.height.x",
	} {
		if err := s.Unknown(name); err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// FuzzParse: the text of a setting is refused or gives a value of the type; numbers are finite.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"1", "007", "-1", "1e400", "nan", "inf", "0x10", "\"a\"", "'b'", "[1, 2]", "true", "2TiB", "\"2us\"", "1 # x", "1\nb = 2", "{a = 1}", "1979-05-27"} {
		f.Add(text)
	}
	types := []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[float64](), reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[units.Duration](), reflect.TypeFor[[]int](), reflect.TypeFor[[]string]()}
	f.Fuzz(func(t *testing.T, text string) {
		for _, of := range types {
			v, err := Parse(of, text)
			if err != nil {
				continue
			}
			if v.Type() != of || v.CanFloat() && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
				t.Fatalf("%q as %v is %v", text, of, v)
			}
		}
		_ = Plain(text)
	})
}
