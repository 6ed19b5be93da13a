// Package series holds measurements by an index whose growth becomes periodic. The clocks and commands of attention by context length are
// such a series, by column and by row. A Series measures only the beginning and extrapolates to every index. It measures until the growth
// repeats, and checks the last entry, so that periodicity is not just assumed. The tables of packages pim/tables and pim/hbm use it.
package series
