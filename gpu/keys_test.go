package gpu

import (
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// fillNumbers gives each number that is zero a value that is in range.
func fillNumbers(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case f.Kind() == reflect.Struct:
			fillNumbers(f)
		case !f.CanSet() || !f.IsZero():
		case f.Type() == reflect.TypeFor[units.Bandwidth]():
			f.SetFloat(1e12)
		case v.Type().Field(i).Name == "Split":
			f.SetString(string(SplitFixed))
		case v.Type().Field(i).Name == "Model":
			f.SetString(string(AttentionFlash))
		case f.CanFloat():
			f.SetFloat(1)
		case f.CanInt():
			f.SetInt(1)
		}
	}
}

// TestEveryKey: with all sections given, a number below or beyond its range is one fault, of the number's own key.
func TestEveryKey(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	fillNumbers(reflect.ValueOf(s).Elem())
	if errs := input.Faults(s); len(errs) > 0 {
		t.Fatal(errs)
	}
	count := 0
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		for i := range v.NumField() {
			f, field := v.Field(i), v.Type().Field(i)
			tag, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
			key := path
			if tag != "" {
				key = strings.TrimPrefix(path+"."+tag, ".")
			} else if !field.Anonymous && f.Kind() != reflect.Struct {
				continue
			}
			try := func(bad any) {
				old := reflect.New(f.Type()).Elem()
				old.Set(f)
				f.Set(reflect.ValueOf(bad).Convert(f.Type()))
				count++
				// The memory's reserve is judged by its capacity, too.
				if errs := input.Faults(s); len(errs) == 0 || errs[0].Key != key || len(errs) > 1 && key != "memory_capacity" {
					t.Errorf("%s = %v: %v", key, bad, errs)
				}
				f.Set(old)
			}
			switch {
			case f.Kind() == reflect.Struct:
				walk(key, f)
			case f.CanFloat():
				try(-1.0)
				try(1e30)
			case f.CanInt():
				try(-1)
				if key != "all_reduce.small_limit" { // which may be beyond any message
					try(int64(1) << 62)
				}
			}
		}
	}
	walk("", reflect.ValueOf(s).Elem())
	if count < 1000 {
		t.Errorf("%d numbers tried", count)
	}
}
