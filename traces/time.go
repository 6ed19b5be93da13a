package traces

import (
	"strconv"
	"strings"
	"time"

	"github.com/l3sim/l3sim/units"
)

// instant is a time of arrival in the file's own epoch: whole seconds and
// picoseconds, as the seconds since 1970 do not fit a count of picoseconds.
type instant struct {
	seconds     int64
	picoseconds int64 // 0 to 10^12 - 1
}

// maxSeconds is the range of units.Duration, in whole seconds: 106 days.
const maxSeconds = int64(1<<63/1_000_000_000_000 - 1)

// since returns the time from j to i, negative where i is before j, and false where it
// does not fit.
func (i instant) since(j instant) (units.Duration, bool) {
	seconds := i.seconds - j.seconds
	if seconds < -maxSeconds || seconds > maxSeconds {
		return 0, false
	}
	return units.Duration(seconds)*units.Second + units.Duration(i.picoseconds-j.picoseconds), true
}

// after returns the time d, which is not negative, after i.
func (i instant) after(d units.Duration) instant {
	s, p := i.seconds+int64(d/units.Second), i.picoseconds+int64(d%units.Second)
	return instant{s + p/int64(units.Second), p % int64(units.Second)}
}

// parseTimestamp reads a date and a time, as in an Azure trace: UTC without a zone
// in 2023, with one in 2024; any number of fraction digits. ISO 8601 with a T, slashes for dashes and a comma before the
// fraction are read, too.
func parseTimestamp(s string) (instant, bool) {
	for _, form := range []string{"20060102150405", "20060102T150405", "20060102T150405Z0700"} { // ISO 8601's basic form, and as a number
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

// The digits of a second in picoseconds, and of the seconds of the latest instant: more
// than 30,000 years.
const (
	fractionDigits = 12
	secondDigits   = 12
)

// parseDecimal reads a decimal number of 10^-scale seconds, which may have an exponent,
// to the nearest picosecond. It returns false for any other text, a negative number, or one
// beyond the latest instant.
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
	// The picoseconds are the first n digits; zeros stand for those that are missing.
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
	seconds, _ := strconv.ParseInt(digits[:secondDigits], 10, 64) // nothing but digits
	picoseconds, _ := strconv.ParseInt(digits[secondDigits:], 10, 64)
	i := instant{seconds, picoseconds}
	if up {
		i = i.after(1)
	}
	return i, true
}
