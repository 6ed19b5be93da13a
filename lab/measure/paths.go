package measure

import "github.com/l3sim/l3sim/units"

// onePath keeps the all-reduce measurements that a fit can use: those that name their method, if
// there are any. Others may measure a direct kernel or NCCL at any size, while systems choose by
// size: up to limit it keeps the file with the lowest mean, beyond it the one with the most
// samples.
func onePath(samples []Sample, limit units.Bytes) []Sample {
	if named := only(samples, func(s *Sample) bool { return s.op != "" }); named != nil {
		return named
	}
	type tally struct {
		count int
		sum   float64
	}
	small, large := map[string]tally{}, map[string]tally{}
	for i := range samples {
		s, into := &samples[i], large
		if s.bytes <= limit {
			into = small
		}
		t := into[s.File]
		into[s.File] = tally{t.count + 1, t.sum + s.Seconds}
	}
	pick := func(of map[string]tally, better func(a, b tally) bool) (best string) {
		for i := range samples { // in order: ties go to the first file
			f := samples[i].File
			if t, ok := of[f]; ok && (best == "" || better(t, of[best])) {
				best = f
			}
		}
		return best
	}
	below := pick(small, func(a, b tally) bool { return a.sum*float64(b.count) < b.sum*float64(a.count) })
	above := pick(large, func(a, b tally) bool { return a.count > b.count })
	return only(samples, func(s *Sample) bool {
		return s.bytes <= limit && s.File == below || s.bytes > limit && s.File == above
	})
}

// WithoutLaunch returns the samples with launch subtracted from the all-reduces of up to limit
// bytes. These were measured one call at a time, while a captured graph or a busy stream hides the
// launch. At least a tenth remains.
func WithoutLaunch(samples []Sample, launch units.Duration, limit units.Bytes) []Sample {
	out := append([]Sample(nil), samples...)
	for i := range out {
		if s := &out[i]; s.kind == AllReduce && s.bytes <= limit {
			s.Seconds = max(s.Seconds-launch.Seconds(), s.Seconds/10)
		}
	}
	return out
}

// methodsBySize sets the method of all-reduces that do not name it: a direct kernel up to limit,
// NCCL beyond. Without it a time could be the faster of both, and a fit would move NCCL's
// parameters to times of direct kernels.
func methodsBySize(samples []Sample, limit units.Bytes) []Sample {
	named := append([]Sample(nil), samples...)
	for i := range named {
		switch s := &named[i]; {
		case s.op != "":
		case s.bytes <= limit:
			s.op = "direct"
		default:
			s.op = "nccl"
		}
	}
	return named
}
