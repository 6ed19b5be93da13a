// Package pim specifies the DIMM-PIM of L3 (section 4 of the paper): a rank of DDR4, or of a sub-channel of DDR5, with a processing unit at
// each bank and a buffer unit in its buffer chip. Alternatively, as in Hermes, a rank has one rank-level unit in the buffer chip that reads
// the banks over the rank's data bus.
//
// It has the configuration (Spec, Precision), the shape of a head (HeadShape), and the data layout: Geometry in bursts, Exchange within a
// burst, Mapping both together, tokenList for attention to some tokens only, Scales for narrow keys and values. It has neither timing nor
// values.
//
// Read Spec and Geometry first. Package pim/machine issues the attention program, pim/tables has clocks by context length for the node
// simulator, and pim/values computes attention values. lab/docs/model-dimm.md derives the numbers.
package pim
