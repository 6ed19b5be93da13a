// Package sweep runs many configurations and loses no result: it expands a sweep file to points, a pool of workers runs them, and
// with a journal any interrupted sweep can resume.
//
//   - Plan is a sweep's points, each a validated configuration with its trace's hash.
//   - Journal is the append-only record of finished points. All other results in a
//     sweep's folder are written from it.
//   - Run runs the points that the journal does not hold yet.
//   - Part is one shard's share of a plan, for several machines; Merge puts the
//     folders of all shards together.
//
// A point is identified by the hash of its effective configuration, the code's version and the content of its trace. A point runs
// again only if one of them changes.
//
// Start at plan.go and run.go; best.go says which variant counts; docs/reference/scale-out.md describes sweeps on many machines.
// Package design, below, reads sweep files; package job writes batch jobs.
package sweep
