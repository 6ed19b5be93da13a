package traces

import (
	"strconv"
	"strings"
	"time"

	"github.com/l3sim/l3sim/units"
)

// instant is an arrival time in the file's own epoch. It has whole seconds and picoseconds, since seconds since 1970 overflow a count of
// picoseconds.
type instant struct {
	seconds     int64
	picoseconds int64 // 0 to 10^12 - 1
}

// maxSeconds is the range of units.Duration, in whole seconds: 106 days.
const maxSeconds = int64(1<<63/1_000_000_000_000 - 1)

// since returns the time from j to i, negative if i is before j, and false if it does not fit.
func (i instant) since(j instant) (units.Duration, bool) {
	seconds := i.seconds - j.seconds
	if seconds < -maxSeconds || seconds > maxSeconds {
		return 0, false
	}
	return units.Duration(seconds)*units.Second + units.Duration(i.picoseconds-j.picoseconds), true
}

// after returns the time i + d; d must not be negative.
func (i instant) after(d units.Duration) instant {
	s, p := i.seconds+int64(d/units.Second), i.picoseconds+int64(d%units.Second)
	return instant{s + p/int64(units.Second), p % int64(units.Second)}
}

// parseTimestamp reads a date and a time as in Azure's traces: UTC without a zone (2023) or with a zone (2024), with any number of fraction
// digits. It also accepts ISO 8601 with a T, slashes for dashes, and a comma before the fraction.
func parseTimestamp(s string) (instant, bool) {
	for _, form := range []string{"20060102150405", "20060102T150405", "20060102T150405Z0700"} { // ISO 8601's basic form, and digits only
		if len(s) >= len("20060102150405") && s[0] < '3' && s[4] < '2' {
			if t, err := time.Parse(form, s); err == nil && t.Year() >= 1990 {
				return instant{t.Unix(), int64(t.Nanosecond()) * 1000}, true
			}
		}
	}
	if len(s) < len("2006-01-02 15:04") || s[4] != '-' && s[4] != '/' || s[7] != s[4] || s[10] != ' ' && s[10] != 'T' && s[10] != 't' {
		return instant{}, false
	}
	s = strings.TrimSuffix(s, " UTC")
	s = s[:4] + "-" + s[5:7] + "-" + s[8:10] + " " + strings.Replace(s[11:], " ", "", 1)
	for _, zone := range []string{"", "Z07:00", "Z0700", "Z07"} {
		for _, form := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04"} {
			if t, err := time.Parse(form+zone, s); err == nil {
				return instant{t.Unix(), int64(t.Nanosecond()) * 1000}, true
			}
		}
	}
	return instant{}, false
}

// Digits of a second's fraction in picoseconds, and of the largest number of seconds: more than 30,000 years.
const (
	fractionDigits = 12
	secondDigits   = 12
)

// parseDecimal reads a decimal number in units of 10^-scale seconds, possibly with an exponent, to the nearest picosecond. It returns false
// for any other text, a negative number, or one beyond the latest instant.
func parseDecimal(s string, scale int) (instant, bool) {
	mantissa, exponent := s, 0
	if at := strings.IndexAny(s, "eE"); at >= 0 {
		var err error
		if exponent, err = strconv.Atoi(s[at+1:]); err != nil || exponent > 1000 || exponent < -1000 {
			return instant{}, false
		}
		mantissa = s[:at]
	}
	whole, fraction, point := strings.Cut(strings.TrimPrefix(mantissa, "+"), ".")
	digits := whole + fraction
	if digits == "" || point && strings.Contains(fraction, ".") || strings.Trim(digits, "0123456789") != "" {
		return instant{}, false
	}
	// The first n digits are whole seconds and picoseconds; missing digits are zeros.
	n := len(whole) + exponent - scale + fractionDigits
	if zeros := len(digits) - len(strings.TrimLeft(digits, "0")); zeros > 0 {
		digits, n = digits[zeros:], n-zeros
	}
	switch {
	case digits == "" || n < 0:
		return instant{}, true
	case n > secondDigits+fractionDigits:
		return instant{}, false
	case n > len(digits):
		digits += strings.Repeat("0", n-len(digits))
	}
	up := n < len(digits) && digits[n] >= '5'
	digits = strings.Repeat("0", secondDigits+fractionDigits-n) + digits[:n]
	seconds, _ := strconv.ParseInt(digits[:secondDigits], 10, 64) // digits only: cannot fail
	picoseconds, _ := strconv.ParseInt(digits[secondDigits:], 10, 64)
	i := instant{seconds, picoseconds}
	if up {
		i = i.after(1)
	}
	return i, true
}
