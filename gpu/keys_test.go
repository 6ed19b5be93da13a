package gpu

import (
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// fillNumbers replaces each zero number by a valid value.
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

// TestEveryKey: with all sections given, a number out of its range is exactly one fault, of its own key.
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
				// The memory reserve is also compared with the capacity.
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
				if key != "all_reduce.small_limit" { // may exceed any message
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
