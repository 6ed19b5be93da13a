// Package job writes the batch job that runs a sweep as shards and merges them: a script for Slurm
// or manifests for Kubernetes. It knows only a sweep's file, folder and sizes.
//
// Start at Emit; the folder templates has both forms. Package sweep has what the job's commands do.
package job
