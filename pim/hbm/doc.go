// Package hbm computes decode attention on processing units beside the banks of HBM, command by command. The program is that of AttAcc
// (Park et al., ASPLOS 2024; https://github.com/scale-snu/attacc_simulator): a head lies in all banks of one channel, whose
// units read a column of every bank at once. It has two interpretations. Measure issues it under the timing rules of package
// dram, either those of AttAcc's simulator or those of the HBM3 standard; Attend computes with it.
package hbm
