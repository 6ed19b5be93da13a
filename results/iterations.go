package results

import (
	"bufio"
	"fmt"
	"io"
	"strconv"

	"github.com/l3sim/l3sim/units"
)

// IterationRecord is one iteration of a replica.
type IterationRecord struct {
	Replica           int
	Start, End        units.Duration
	Decoding          int // requests that decode: each emits a token
	PromptTokens      int // prefilled
	FirstTokens       int // prompts that end: each emits a token
	Waiting, InSystem int // requests as it begins, those of the iteration in InSystem alone
	KV                units.Bytes
	GPU, PIM          units.Duration // for which they work; PIM summed over ranksets
	PCIeDown, PCIeUp  units.Duration
	Channel           units.Duration
	PrefixTokens      int         // of prompts that begin, found in the cache of prefixes
	Cached            units.Bytes // blocks of that cache, in use or not
	Joules            float64     // of the replica with its share of the node, cooling included
}

const iterationColumns = "replica,start_s,end_s,decode_requests,prompt_tokens,first_tokens,waiting_requests,requests_in_system,kv_bytes,gpu_s,pim_s,pcie_down_s,pcie_up_s,channel_s,energy_j,prefix_tokens,cached_bytes"

// WriteIterations writes a CSV file with a row for each iteration, replica by replica in order
// of time; times in seconds, exact to the picosecond.
func WriteIterations(w io.Writer, all []IterationRecord) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, iterationColumns)
	for i := range all {
		r := &all[i]
		fmt.Fprintf(b, "%d,%s,%s,%d,%d,%d,%d,%d,%d,%s,%s,%s,%s,%s,%s,%d,%d\n", r.Replica, decimal(r.Start, 12), decimal(r.End, 12), r.Decoding, r.PromptTokens, r.FirstTokens,
			r.Waiting, r.InSystem, int64(r.KV), decimal(r.GPU, 12), decimal(r.PIM, 12), decimal(r.PCIeDown, 12), decimal(r.PCIeUp, 12), decimal(r.Channel, 12), strconv.FormatFloat(r.Joules, 'f', -1, 64), r.PrefixTokens, int64(r.Cached))
	}
	return b.Flush()
}
