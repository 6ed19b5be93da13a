// Package ranks models the DIMM-PIM ranks of a replica, the channels and links to them, and the memory for keys and values on
// them.
//
// Read rank_devices.go for what the ranks are and how the groups of a sub-batch are filled, place.go for which heads attend on
// which channel, shipment.go for what transfers take. rank_predict.go has the predictions for the scheduler, sequence.go counts
// the ranks' activity for energy; stripe.go, prefix.go and lists.go have one option each. draw.go has the joules of a rank's
// commands, and pace.go the limit of a DIMM's power. kernels.go measures clocks with package pim, once for all nodes with equal
// ranks.
package ranks
