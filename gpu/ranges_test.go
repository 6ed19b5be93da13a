package gpu

import (
	"encoding"
	"maps"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// setNumber sets a number, possibly with a unit, from a text.
func setNumber(t *testing.T, v reflect.Value, text string) {
	err := error(nil)
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		err = u.UnmarshalText([]byte(text))
	} else if v.CanInt() {
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		v.SetInt(n)
	} else {
		var n float64
		n, err = strconv.ParseFloat(text, 64)
		v.SetFloat(n)
	}
	if err != nil {
		t.Error(err)
	}
}

// nextNumber moves a number to the next representable one in a direction.
func nextNumber(v reflect.Value, by int) {
	if v.CanInt() {
		v.SetInt(v.Int() + int64(by))
	} else {
		v.SetFloat(math.Nextafter(v.Float(), math.Inf(by)))
	}
}

// TestRangesAreExact: every number of [gpu] accepts both ends of the range in its error, and refuses the next number beyond. The ranges are
// counted, since an error and its rule share one constant.
func TestRangesAreExact(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	fillNumbers(reflect.ValueOf(s).Elem())
	ranges, counts := input.Ranges(s), map[string]int{}
	numbers := regexp.MustCompile(`^(more than |0 \(sharp\), or |at least )?([0-9.e]+[A-Za-z/]*)(?:(?:,? at most|, up to| to) ([0-9.e]+[A-Za-z/]*))?$`)
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		for i := range v.NumField() {
			f, field := v.Field(i), v.Type().Field(i)
			tag, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
			key := path
			if tag != "" {
				key = strings.TrimPrefix(path+"."+tag, ".")
			}
			if f.Kind() == reflect.Struct {
				walk(key, f)
				continue
			}
			ends := numbers.FindStringSubmatch(ranges[key])
			if ends == nil || key == "memory_share" { // 0 means none
				continue
			}
			counts[ranges[key]]++
			old := reflect.New(f.Type()).Elem()
			old.Set(f)
			try := func(text string, by int, ok bool) {
				setNumber(t, f, text)
				if by != 0 {
					nextNumber(f, by)
				}
				has := false
				for _, e := range input.Faults(s) {
					has = has || e.Key == key
				}
				if has == ok {
					t.Errorf("%s = %v: expected %s, accepted %t", key, f, ranges[key], !has)
				}
			}
			switch open := ends[1] == "more than "; {
			case open:
				try(ends[2], 0, false)
				try(ends[2], 1, true)
			default:
				try(ends[2], 0, true)
				try(ends[2], -1, false)
			}
			if strings.HasPrefix(ends[1], "0 ") {
				try("0", 0, true)
				try("0", -1, false)
				try("0", 1, false)
			}
			if ends[3] != "" {
				try(ends[3], 0, true)
				try(ends[3], 1, false)
			}
			f.Set(old)
		}
	}
	walk("", reflect.ValueOf(s).Elem())
	want := map[string]int{
		"0 (sharp), or 1 to 100": 29, "0 to 1": 20, "0 to 10": 2, "0 to 1048576": 1, "0 to 1073741824": 1, "0 to 1099511627776": 10, "0 to 16": 1, "0 to 1e6": 5, "0 to 1e9": 104, "0 to 256": 4, "0 to 65536": 7,
		"0ps to 1s": 150, "1 to 100": 2, "1 to 1024": 40, "1 to 1048576": 11, "1 to 1073741824": 11, "1 to 1e9": 5, "1 to 65536": 1, "1B to 1024TiB": 1, "1B to 1TiB": 1,
		"1B/s to 1000000TB/s": 31, "1FLOP/s to 1000000PFLOP/s": 3, "3 to 6": 1, "at least 0B": 1, "more than 0, at most 1": 66, "more than 0, at most 10": 13, "more than 0, up to 1e6": 1,
	}
	if !maps.Equal(counts, want) {
		t.Errorf("ranges by their number: %#v", counts)
	}
}
