// Package schedtest helps the tests of schedulers: a small model, a linear predictor, and a Follower that checks batches against
// the laws of serving. Only tests import it.
package schedtest
