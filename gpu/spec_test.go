package gpu

import (
	"math"
	"reflect"
	"testing"
)

// TestValidateEveryNumber: no number of a specification may be negative, and no
// real one NaN or infinite.
func TestValidateEveryNumber(t *testing.T) {
	s := loadPreset(t, "a100-sxm-80gb")
	count := 0
	try := func(name string, set func(), reset func()) {
		t.Helper()
		set()
		if len(s.Validate()) == 0 {
			t.Errorf("%s is accepted", name)
		}
		reset()
		count++
	}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		for i := range v.NumField() {
			f, name := v.Field(i), path+v.Type().Field(i).Name
			switch {
			case f.Kind() == reflect.Struct:
				walk(name+".", f)
			case f.CanFloat():
				old := f.Float()
				for _, bad := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1)} {
					try(name, func() { f.SetFloat(bad) }, func() { f.SetFloat(old) })
				}
			case f.CanInt():
				old := f.Int()
				try(name, func() { f.SetInt(-1) }, func() { f.SetInt(old) })
			}
		}
	}
	walk("", reflect.ValueOf(s).Elem())
	if errs := s.Validate(); len(errs) > 0 || count < 100 {
		t.Fatalf("%d values tried, %v", count, errs)
	}
}
