// Package sweep runs many configurations and loses no result: a sweep file is
// expanded to points, a pool of workers runs them, and a journal makes any
// interruption resumable.
//
//   - Plan is a sweep's points, each a validated configuration with its trace's hash.
//   - Journal is the append-only record of finished points. All other results in a
//     sweep's folder are written from it.
//   - Run carries out the points that the journal does not hold yet.
//   - Part is one shard's share of a plan, for several machines; Merge puts the
//     folders of all shards together.
//
// A point is identified by the hash of its effective configuration, the code's version and
// the content of its trace. If any of them changes, the point runs again. If not, it never
// does.
//
// Start at plan.go and run.go; best.go says which variant counts; docs/reference/scale-out.md tells what happens on many machines.
// Package design, below, reads sweep files; package job writes batch jobs.
package sweep
