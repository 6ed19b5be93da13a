// Package series holds measurements by an index that soon grow by the same in every period: the clocks and commands of attention by
// context length do, column by column and row by row. A Series measures the beginning only and answers for every index, beyond
// the measured ones, too. It measures until the growth is even and checks the last entry, so that nothing is taken for granted.
// The tables of packages pim/tables and pim/hbm are made of it.
package series
