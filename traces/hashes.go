package traces

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/l3sim/l3sim/input"
)

// blockSizes are the tokens for each hash in public traces, the likeliest first: 512 in Mooncake's, 16 in Qwen-Bailian's, 64 in NVIDIA
// Dynamo's, then other page sizes of servers.
var blockSizes = []int{BlockTokens, 16, 64, 32, 128, 256, 1024, 2048, 8}

const maxBlock = 1 << 20 // bounds the block size that a user or a file gives

// blocks infers the block size from the numbers of tokens and hashes of prompts.
type blocks struct {
	given int // by the user or the file; 0 if it is to be inferred
	// Block sizes from least to most fit all lines so far. The range leastWhole to mostWhole assumes that writers leave out a last partial
	// block.
	least, most           int
	wholeLeast, wholeMost int
	lines                 int // lines with hashes
	first                 *input.Error
}

// add narrows the sizes by a prompt and its hashes. It returns false if no size fits this prompt and all before.
func (b *blocks) add(tokens, hashes int) bool {
	if b.given > 0 {
		n := (tokens + b.given - 1) / b.given
		return hashes == n || hashes == tokens/b.given
	}
	if b.lines == 0 {
		b.least, b.most, b.wholeLeast, b.wholeMost = 1, math.MaxInt, 1, math.MaxInt
	}
	now := *b
	// Either ceil(tokens / size) or floor(tokens / size) equals hashes.
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

// size returns the block size, or 0 if the lines leave too many open.
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

// unknown is the error for prompts and hashes that leave the block size open.
func (b *blocks) unknown() error {
	bad := *b.first
	if b.least <= b.most && b.most < math.MaxInt {
		bad.Expected = fmt.Sprintf("--columns block=N, the tokens that a hash names: by their numbers in all lines at least %d and at most %d", b.least, b.most)
	}
	return &bad
}

// expected describes how many hashes a prompt should have.
func (b *blocks) expected(tokens int) string {
	size := b.size()
	if size == 0 {
		size = BlockTokens
	}
	n := (tokens + size - 1) / size
	return fmt.Sprintf("%s, one for each block of %d tokens of the prompt; --columns block=N names other blocks", input.Plural(n, "hash", "hashes"), size)
}

// readHashes reads the hashes of a prompt's blocks; nil if there are none.
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

// parseHashes reads a JSON array of whole numbers. encoding/json is ten times slower, and prompts of a million tokens have thousands.
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

// chain turns hashes of single blocks into hashes of all text up to each block's end, since Qwen-Bailian's hash of a block does not depend
// on its position. Equal hashes mean equal text only under one seed; sessions with hashes of their own have different seeds.
func chain(ids []uint64, seed uint64) {
	before := seed * 0xd1342543de82ef95 // the factor is odd, so different seeds give different values
	for i, id := range ids {
		x := before ^ (id + 0x9e3779b97f4a7c15) // SplitMix64's finaliser, https://prng.di.unimi.it/splitmix64.c
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		before = x ^ x>>31
		ids[i] = before
	}
}
