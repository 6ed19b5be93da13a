package gpu

import (
	"math"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// TileList is the thread-block tiles of a library that has one for each range of rows. "64x64 <= 64, 64x128/2 <= 128, 128x128/2" has tiles
// of 64 rows by 64 columns for products of up to 64 rows; for more rows, it has clusters of two tiles, one above the other, to which rows
// are padded. "" is the empty list.
type TileList string

const mostListed = 4

// listedTile is a tile, the number of tiles in a cluster, and the largest number of rows that it serves. The zero value is no tile.
type listedTile struct {
	tile
	cluster, most int
}

// check is the rule of a list.
func (l TileList) check(c *input.Check, key string) {
	_, ok := l.tiles()
	c.That(ok, key, string(l),
		`"", or up to %d tiles, each but the last with the most rows that it serves, fewest first, as in "64x64 <= 64, 64x128/2 <= 128, 128x128/2"`, mostListed)
}

// tiles returns the tiles of a list.
func (l TileList) tiles() (read [mostListed]listedTile, ok bool) {
	if l == "" {
		return read, true
	}
	rest, more := string(l), true
	for i := 0; more; i++ {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		t, ok := parseTile(part)
		if !ok || i == mostListed || (t.most == math.MaxInt) == more || i > 0 && t.most <= read[i-1].most {
			return read, false
		}
		read[i] = t
	}
	return read, true
}

// parseTile reads one tile: "64x128/2 <= 128".
func parseTile(text string) (t listedTile, ok bool) {
	size, most, bounded := strings.Cut(text, "<=")
	size, cluster, clustered := strings.Cut(size, "/")
	rows, columns, ok := strings.Cut(size, "x")
	t = listedTile{cluster: 1, most: math.MaxInt}
	number := func(text string, to *int, high int) {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		ok = ok && err == nil && n >= 1 && n <= high
		*to = n
	}
	const largest = 1024 // CUDA's threads of a block
	number(rows, &t.m, largest)
	number(columns, &t.n, largest)
	if clustered {
		number(cluster, &t.cluster, mostClustered)
	}
	if bounded {
		number(most, &t.most, 1<<30)
	}
	return t, ok
}
