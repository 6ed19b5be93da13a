package main

import (
	"github.com/l3sim/l3sim/gpu/measure"
)

// noteSuites names files whose attention another suite fits much better: they were
// probably measured with its kernels.
func (a *app) noteSuites(t *measure.Target, samples []measure.Sample) {
	if a.quiet {
		return
	}
	var files []string
	byFile := map[string][]measure.Sample{}
	for _, s := range samples {
		if s.Kind().Attends() {
			if byFile[s.File] == nil {
				files = append(files, s.File)
			}
			byFile[s.File] = append(byFile[s.File], s)
		}
	}
	for _, suite := range suites {
		other := *t
		if suite == t.GPU.Suite || setSuite(&other, string(suite)) != nil {
			continue
		}
		for _, file := range files {
			own, its := t.Judge(byFile[file]).MAPE, other.Judge(byFile[file]).MAPE
			if its <= own/2 {
				a.note("%s fits the suite %s better (%.1f%% off in the mean, %s %.1f%%): --suite %s",
					file, suite, 100*its, t.GPU.Suite, 100*own, suite)
			}
		}
	}
}
