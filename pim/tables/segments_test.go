package tables

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/units"
)

// smallBuffers are score buffers of a few chunks of grouped query heads: a head passes through them in many segments.
var smallBuffers = []units.Bytes{units.KiB, 2 * units.KiB, 3 * units.KiB, 4 * units.KiB}

// TestSkippingSegments: heads that pass through a small score buffer have the same clocks and activity with and without skipping of
// repetitions, alone and in a sequence of heads of different lengths.
func TestSkippingSegments(t *testing.T) {
	deep.Cases(t, 10, func(t *rapid.T) {
		spec, d, shape := drawRank(t)
		spec.ScoreBuffer = rapid.SampledFrom(smallBuffers).Draw(t, "small buffer")
		b, err := machine.NewRunner(spec, d, shape)
		if bad := (*input.Error)(nil); errors.As(err, &bad) && strings.HasSuffix(bad.Key, "score_buffer") {
			t.Skip(err) // a buffer without room for a chunk of these heads; rapid fails where too many draws are skipped
		} else if err != nil {
			t.Fatal(err)
		}
		longest := max(3*b.Program.SegmentTokens, 12_000/shape.Queries)
		appends := rapid.Bool().Draw(t, "appends")
		var heads []machine.Head
		for _, context := range rapid.SliceOfN(rapid.IntRange(1, longest), 1, 4).Draw(t, "contexts") {
			heads = append(heads, machine.Head{Context: context, Appends: appends})
		}
		alone := b.Measure(heads[0])
		ends := slices.Clone(b.Ends(heads...))
		b.Machine.Repeats.On = false
		if want := b.Measure(heads[0]); alone != want {
			t.Fatalf("%+v in segments of %d tokens:\nskipped %+v\nin full %+v", heads[0], b.Program.SegmentTokens, alone, want)
		}
		if want := b.Ends(heads...); !slices.Equal(ends, want) {
			t.Fatalf("%+v in segments of %d tokens end at %d with repetitions skipped, at %d in full", heads, b.Program.SegmentTokens, ends, want)
		}
	})
}

// TestSegmentsAreSkipped: a head of a thousand segments runs only a few segments' commands more than one of ten.
func TestSegmentsAreSkipped(t *testing.T) {
	for _, unit := range []string{pim.BankUnits, pim.RankLevelUnit} {
		for _, beyond := range []string{pim.Segment, pim.Refetch} {
			for _, buffer := range smallBuffers {
				spec := pim.Default()
				spec.ProcessingUnit, spec.BeyondBuffer, spec.ScoreBuffer = unit, beyond, buffer
				b, err := machine.NewRunner(spec, parts.DDR4(t), pim.HeadShape{HeadDim: 128, Queries: 5, ElementBits: 16})
				parts.Must(t, err)
				issued := func(segments int) int64 {
					before := b.Issued
					b.Attention(segments * b.Program.SegmentTokens)
					return b.Issued - before
				}
				few, many := issued(10), issued(1000)
				if most := few * 3 / 2; many > most {
					t.Errorf("%s, %s, %v: %d commands for a thousand segments, want at most %d", unit, beyond, buffer, many, most)
				}
			}
		}
	}
}

// TestSkippingSegmentsOfKeyGroups: with Refetch, the second segment's keys need q of their own group, since the scores of all tokens ended
// with that of the last group. In later rows the second segment begins within a group whose q is already loaded.
func TestSkippingSegmentsOfKeyGroups(t *testing.T) {
	spec := pim.Default()
	spec.BeyondBuffer, spec.Precision.Preset, spec.ScoreBuffer, spec.MACLatency, spec.SoftmaxLatency = pim.Refetch, "fp32", units.KiB, 1, 0
	b, err := machine.NewRunner(spec, parts.DDR4(t), pim.HeadShape{HeadDim: 80, Queries: 1, ElementBits: 8, ScaleBytes: 4, KeyGroup: 128})
	parts.Must(t, err)
	for _, context := range []int{896, 1344, 3153, 7 * 896, 20_000} {
		h := machine.Head{Context: context}
		b.Machine.Repeats.On = true
		got := b.Measure(h)
		b.Machine.Repeats.On = false
		if want := b.Measure(h); got != want {
			t.Errorf("%d tokens in segments of %d:\nskipped %+v\nin full %+v", context, b.Program.SegmentTokens, got, want)
		}
	}
}

// TestEndsOfSegments: the ends of heads in a sequence, most of which are taken from the previous segment, equal those of a run of every
// head.
func TestEndsOfSegments(t *testing.T) {
	deep.Cases(t, 5, func(t *rapid.T) {
		spec, d, shape := drawRank(t)
		spec.ScoreBuffer = rapid.SampledFrom(smallBuffers).Draw(t, "small buffer")
		b, err := machine.NewRunner(spec, d, shape)
		if bad := (*input.Error)(nil); errors.As(err, &bad) && strings.HasSuffix(bad.Key, "score_buffer") {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		table := measureTable(b, true)
		row := table.geometry.RowTokens
		if table.segment >= row || len(table.endPeriods()) < 2 {
			return // a row has one segment, or no place repeats
		}
		base := row * rapid.IntRange(0, 1).Draw(t, "rows before")
		for i := range row {
			if got, want := table.ends[base/row][base/row%2][i], table.inSequence(b, base+i+1); got != want {
				t.Fatalf("%d tokens, segments of %d: %d clocks beyond the attention, in a run %d", base+i+1, table.segment, got, want)
			}
		}
	})
}
