#!/bin/bash
# Runs the 42 points of examples/ranks.toml as a Slurm array of 8 shards, and then
# their merge into out/ranks. Submit both with
#
#   bash THIS_FILE
#
# in the folder where these paths start. It must be the same on all nodes, and l3sim
# on their PATH. Adapt the time, and add what your site asks for (--partition, --account).
# Submitted again after a failure it goes on: what a journal holds never runs again.
set -euo pipefail

out=out/ranks
mkdir -p "$out/logs"

shards=$(sbatch --parsable --output=out/ranks/logs/shard-%a.log <<'END'
#!/bin/bash
#SBATCH --job-name=l3sim-ranks-ae0d80
#SBATCH --array=0-7
#SBATCH --cpus-per-task=1
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@60
#SBATCH --requeue
#SBATCH --open-mode=append

# The shard's number is spelt out, so that a part of the array can be submitted alone.
status=0
srun --cpus-per-task=1 l3sim sweep examples/ranks.toml --quiet --workers 1 \
	--shard "$SLURM_ARRAY_TASK_ID/8" --out out/ranks/shards/"$SLURM_ARRAY_TASK_ID" || status=$?

# A shard fails where it did not finish: killed, out of time or memory, no room on the
# disk. Its journal is whole, so it goes on from there, up to three times. Status 2 is
# a wrong input, which no repetition mends.
if ((status != 0 && status != 2 && ${SLURM_RESTART_COUNT:-0} < 3)); then
	scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
fi
exit "$status"
END
)
shards=${shards%%;*} # without the cluster's name, where there is one

merge=$(sbatch --parsable --output=out/ranks/logs/merge.log --dependency="afterok:$shards" --kill-on-invalid-dep=yes <<'END'
#!/bin/bash
#SBATCH --job-name=l3sim-ranks-ae0d80-merge
#SBATCH --time=01:00:00
#SBATCH --open-mode=append

l3sim sweep merge out/ranks/shards/{0..7} --out out/ranks
END
)

echo "shards $shards, merge ${merge%%;*}"
