package traces

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/l3sim/l3sim/input"
)

// blockSizes are the tokens that a hash of a public trace names, the likeliest first: 512 in Mooncake's, 16 in Qwen-Bailian's,
// 64 in NVIDIA Dynamo's, and the other pages of servers.
var blockSizes = []int{BlockTokens, 16, 64, 32, 128, 256, 1024, 2048, 8}

const maxBlock = 1 << 20 // bounds the tokens of a block that a user or a file gives

// blocks finds the tokens of a block from the tokens and the hashes of prompts.
type blocks struct {
	given int // by the user or the file, 0 where it is to be found
	// Blocks of least to most tokens fit all lines so far. In whole they do where writers leave out a last block that is not full.
	least, most           int
	wholeLeast, wholeMost int
	lines                 int // with hashes
	first                 *input.Error
}

// add narrows the sizes by a prompt and its hashes; false where none fits this one and all before.
func (b *blocks) add(tokens, hashes int) bool {
	if b.given > 0 {
		n := (tokens + b.given - 1) / b.given
		return hashes == n || hashes == tokens/b.given
	}
	if b.lines == 0 {
		b.least, b.most, b.wholeLeast, b.wholeMost = 1, math.MaxInt, 1, math.MaxInt
	}
	now := *b
	// ceil(tokens / size) = hashes, or floor.
	now.least = max(b.least, (tokens+hashes-1)/hashes)
	if hashes > 1 {
		now.most = min(b.most, (tokens-1)/(hashes-1))
	}
	now.wholeLeast, now.wholeMost = max(b.wholeLeast, tokens/(hashes+1)+1), min(b.wholeMost, tokens/hashes)
	if now.least > now.most && now.wholeLeast > now.wholeMost {
		return false
	}
	*b = now
	return true
}

// size returns the tokens of a block, 0 where the lines leave too many open.
func (b *blocks) size() int {
	if b.given > 0 || b.lines == 0 {
		return b.given
	}
	for _, r := range [][2]int{{b.least, b.most}, {b.wholeLeast, b.wholeMost}} {
		fits := func(size int) bool {
			return size >= r[0] && size <= r[1] && (size == BlockTokens || r[1] < math.MaxInt)
		}
		if i := slices.IndexFunc(blockSizes, fits); i >= 0 {
			return blockSizes[i]
		}
	}
	return 0
}

// unknown is the error for prompts and hashes that leave the tokens of a block open.
func (b *blocks) unknown() error {
	bad := *b.first
	if b.least <= b.most && b.most < math.MaxInt {
		bad.Expected = fmt.Sprintf("--columns block=N, the tokens that a hash names: by their numbers in all lines at least %d and at most %d", b.least, b.most)
	}
	return &bad
}

// expected says how many hashes a prompt should have.
func (b *blocks) expected(tokens int) string {
	size := b.size()
	if size == 0 {
		size = BlockTokens
	}
	n := (tokens + size - 1) / size
	return fmt.Sprintf("%s, one for each block of %d tokens of the prompt; --columns block=N names other blocks", input.Plural(n, "hash", "hashes"), size)
}

// readHashes reads the hashes of a prompt's blocks, nil where there are none.
func (c *collector) readHashes(line int, o object, t *table, tokens int) ([]uint64, error) {
	raw, ok := o.value(hashField)
	if !ok {
		return nil, nil
	}
	bad := &input.Error{File: c.file, Line: line, Key: hashField, Value: string(raw), Expected: "an array of whole numbers that are not negative"}
	ids, ok := parseHashes(raw)
	if !ok {
		return nil, bad
	}
	if len(ids) == 0 {
		return nil, nil
	}
	if c.blocks.given == 0 && c.blocks.lines == 0 {
		c.blocks.given = t.block
	}
	if !c.blocks.add(tokens, len(ids)) {
		bad.Expected = c.blocks.expected(tokens)
		return nil, bad
	}
	if c.blocks.lines++; c.blocks.first == nil {
		bad.Expected = c.blocks.expected(tokens)
		c.blocks.first = bad
	}
	if t.parent != "" {
		chain(ids, 0)
	}
	return ids, nil
}

// parseHashes reads a JSON array of whole numbers. Prompts of a million tokens have thousands, which encoding/json reads ten
// times slower.
func parseHashes(raw []byte) ([]uint64, bool) {
	at := skipSpace(raw, 0)
	if raw[at] != '[' {
		return nil, false
	}
	if at = skipSpace(raw, at+1); raw[at] == ']' {
		return nil, true
	}
	ids := make([]uint64, 0, bytes.Count(raw, []byte(","))+1)
	for {
		from := at
		for raw[at] >= '0' && raw[at] <= '9' {
			at++
		}
		id, err := strconv.ParseUint(string(raw[from:at]), 10, 64)
		if at = skipSpace(raw, at); err != nil || raw[at] != ',' && raw[at] != ']' {
			return nil, false
		}
		if ids = append(ids, id); raw[at] == ']' {
			return ids, true
		}
		at = skipSpace(raw, at+1)
	}
}

// chain makes hashes of the blocks themselves hashes of all text to their ends: Qwen-Bailian's name a block wherever it stands.
// Those of one seed are of one text: sessions in which a hash means something else have another.
func chain(ids []uint64, seed uint64) {
	before := seed * 0xd1342543de82ef95 // odd, so that no two seeds are alike
	for i, id := range ids {
		x := before ^ (id + 0x9e3779b97f4a7c15) // the finaliser of SplitMix64, https://prng.di.unimi.it/splitmix64.c
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		before = x ^ x>>31
		ids[i] = before
	}
}
