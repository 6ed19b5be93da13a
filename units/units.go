package units

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input/list"
)

// Duration is a span of time, or an instant counted from the start of a run, in integer
// picoseconds: 625 ps, the clock of DDR4-3200, is exact, and an int64 holds 106 days.
type Duration int64

// Durations in picoseconds.
const (
	Picosecond  Duration = 1
	Nanosecond           = 1_000 * Picosecond
	Microsecond          = 1_000 * Nanosecond
	Millisecond          = 1_000 * Microsecond
	Second               = 1_000 * Millisecond
)

// Bytes is a number of bytes.
type Bytes int64

// Binary multiples of a byte (IEC 80000-13).
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

// Bandwidth is a data rate in bytes per second.
type Bandwidth float64

// FLOPRate is an arithmetic rate in floating-point operations per second; a
// multiply-add counts as two.
type FLOPRate float64

// FromPicoseconds converts a whole number of picoseconds. Values beyond the range of Duration
// saturate, and what is not a number counts as the longest: it comes from infinite times.
func FromPicoseconds(ps float64) Duration {
	switch {
	case ps <= math.MinInt64:
		return math.MinInt64
	case ps < math.MaxInt64:
		return Duration(ps)
	}
	return math.MaxInt64
}

// FromSeconds rounds s seconds to the nearest picosecond. It saturates as FromPicoseconds does.
func FromSeconds(s float64) Duration { return FromPicoseconds(math.Round(s * 1e12)) }

// Seconds returns d in seconds.
func (d Duration) Seconds() float64 { return float64(d) / 1e12 }

// Microseconds returns d in microseconds.
func (d Duration) Microseconds() float64 { return float64(d) / 1e6 }

// AppendDecimal appends d in units of 10^-scale seconds, scale 0 to 11, exactly and without zeros
// at the end.
func (d Duration) AppendDecimal(b []byte, scale int) []byte {
	one := int64(1) // unit in picoseconds
	for range 12 - scale {
		one *= 10
	}
	if d < 0 {
		b = append(b, '-')
	}
	whole, rest := int64(d)/one, int64(d)%one
	b = strconv.AppendInt(b, max(whole, -whole), 10)
	if rest = max(rest, -rest); rest > 0 {
		digits := strconv.FormatInt(one+rest, 10)[1:] // with the zeros before it
		b = append(append(b, '.'), strings.TrimRight(digits, "0")...)
	}
	return b
}

// TransferTime returns the time that n bytes take at bandwidth b, rounded up
// to a picosecond: a transfer has not ended before its last byte. It saturates as
// FromPicoseconds does; no bytes take no time.
func (b Bandwidth) TransferTime(n Bytes) Duration {
	if n == 0 {
		return 0
	}
	return FromPicoseconds(math.Ceil(float64(n) / float64(b) * 1e12))
}

// suffix is one unit of a quantity and its size in the quantity's base unit.
type suffix struct {
	name string
	size float64
}

// The units of each quantity, smallest first: text is written in the largest
// one that gives a short exact number.
var (
	durationUnits = []suffix{{"ps", 1}, {"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}}
	byteUnits     = []suffix{
		{"B", 1}, {"kB", 1e3}, {"KiB", 1 << 10}, {"MB", 1e6}, {"MiB", 1 << 20},
		{"GB", 1e9}, {"GiB", 1 << 30}, {"TB", 1e12}, {"TiB", 1 << 40},
	}
	bandwidthUnits = []suffix{{"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}}
	flopUnits      = []suffix{{"FLOP/s", 1}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}}
)

// split reads "<number><unit>", with optional white space between them.
func split(text, quantity, example string, units []suffix) (number string, value float64, unit suffix, err error) {
	t := strings.TrimSpace(text)
	cut := strings.LastIndexAny(t, "0123456789.") + 1
	i := slices.IndexFunc(units, func(u suffix) bool { return u.name == strings.TrimSpace(t[cut:]) })
	if i < 0 {
		return "", 0, suffix{}, fmt.Errorf("%q is not a %s: want a number with a unit (%s), such as %q", text, quantity,
			strings.Join(list.Map(units, func(u suffix) string { return u.name }), ", "), example)
	}
	value, err = strconv.ParseFloat(t[:cut], 64)
	if err != nil {
		return "", 0, suffix{}, fmt.Errorf("%q is not a %s: want a number with a unit, such as %q", text, quantity, example)
	}
	if math.IsInf(float64(value*units[i].size), 0) {
		return "", 0, suffix{}, fmt.Errorf("%q is too large for a %s", text, quantity)
	}
	return t[:cut], value, units[i], nil
}

// parse returns a quantity in its base unit.
func parse(text, quantity, example string, units []suffix) (float64, error) {
	_, value, unit, err := split(text, quantity, example, units)
	return float64(value * unit.size), err
}

// parseInteger is parse for quantities that are whole numbers of their base unit: "0.5ps" and
// "1.5B" are errors. It computes exactly, beyond the 53 bits of a float64.
func parseInteger(text, quantity, example string, units []suffix) (int64, error) {
	number, _, unit, err := split(text, quantity, example, units)
	if err != nil {
		return 0, err
	}
	r, ok := new(big.Rat).SetString(number)
	switch {
	case !ok:
		return 0, fmt.Errorf("%q is not a %s", text, quantity)
	case !r.Mul(r, new(big.Rat).SetFloat64(unit.size)).IsInt():
		return 0, fmt.Errorf("%q is not a whole number of %s", text, units[0].name)
	case !r.Num().IsInt64():
		return 0, fmt.Errorf("%q is too large for a %s", text, quantity)
	}
	return r.Num().Int64(), nil
}

// format writes v in the largest unit whose number reads back to the same
// value with at most four decimals, else in the base unit.
func format(v float64, units []suffix) string {
	for i := len(units) - 1; i > 0; i-- {
		u := units[i]
		if math.Abs(v) < u.size {
			continue
		}
		s := strconv.FormatFloat(v/u.size, 'f', -1, 64)
		point := strings.IndexByte(s, '.')
		if point >= 0 && len(s)-point-1 > 4 {
			continue
		}
		if back, err := strconv.ParseFloat(s, 64); err == nil && back*u.size == v {
			return s + u.name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64) + units[0].name
}

// formatInteger writes v in the largest unit of which it is a whole number of
// ten-thousandths, so that the text reads back to the same integer.
func formatInteger(v int64, units []suffix) string {
	for i := len(units) - 1; i > 0; i-- {
		size := int64(units[i].size)
		if v < size && v > -size {
			continue
		}
		whole, rest := v/size, v%size*10_000 // of a TiB no more than 1.1e16
		if rest%size != 0 {
			continue
		}
		s := strconv.FormatInt(whole, 10)
		if q := rest / size; q != 0 {
			s += strings.TrimRight(fmt.Sprintf(".%04d", max(q, -q)), "0")
		}
		return s + units[i].name
	}
	return strconv.FormatInt(v, 10) + units[0].name
}

// String returns d with its unit, such as "625ps" or "1.5us".
func (d Duration) String() string { return formatInteger(int64(d), durationUnits) }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration with its unit: ps, ns, us, ms or s.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := parseInteger(string(text), "duration", "100ms", durationUnits)
	*d = Duration(v)
	return err
}

// String returns b with its unit, such as "2TiB".
func (b Bytes) String() string { return formatInteger(int64(b), byteUnits) }

// MarshalText implements encoding.TextMarshaler.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads a byte count with its unit: B, kB, MB, GB, TB or KiB, MiB, GiB, TiB.
func (b *Bytes) UnmarshalText(text []byte) error {
	v, err := parseInteger(string(text), "byte count", "2TiB", byteUnits)
	*b = Bytes(v)
	return err
}

// String returns b with its unit, such as "25.6GB/s".
func (b Bandwidth) String() string { return format(float64(b), bandwidthUnits) }

// MarshalText implements encoding.TextMarshaler.
func (b Bandwidth) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads a data rate with its unit: B/s, kB/s, MB/s, GB/s or TB/s.
func (b *Bandwidth) UnmarshalText(text []byte) error {
	v, err := parse(string(text), "bandwidth", "25.6GB/s", bandwidthUnits)
	*b = Bandwidth(v)
	return err
}

// String returns f with its unit, such as "312TFLOP/s".
func (f FLOPRate) String() string { return format(float64(f), flopUnits) }

// MarshalText implements encoding.TextMarshaler.
func (f FLOPRate) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads an arithmetic rate with its unit: FLOP/s, GFLOP/s, TFLOP/s or PFLOP/s.
func (f *FLOPRate) UnmarshalText(text []byte) error {
	v, err := parse(string(text), "FLOP rate", "312TFLOP/s", flopUnits)
	*f = FLOPRate(v)
	return err
}
