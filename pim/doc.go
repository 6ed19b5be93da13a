// Package pim specifies the DIMM-PIM of L3 (section 4 of the paper): a rank of DDR4, or of a sub-channel of DDR5, whose banks each
// have a processing unit and whose buffer chip has one, too, the buffer unit; or, as in Hermes, one rank-level unit in the buffer chip
// that reads the banks over the rank's data bus.
//
// It says what can be configured (Spec, Precision), what a head is (HeadShape), and which token lies where: Geometry in bursts, Exchange
// within a burst, Mapping both together, tokenList where a head attends to some tokens only, Scales beside narrow keys and values.
// Nothing here has a clock or a value.
//
// Read Spec and Geometry first. Package pim/machine has the attention program and issues it, pim/tables keeps clocks by length for
// the node simulator, pim/values computes with the bytes. lab/docs/model-dimm.md derives the numbers.
package pim
